/* SPDX-License-Identifier: Apache-2.0 */
/* The object cache: one file per key in $XDG_CACHE_HOME/weir (0700), the object and then its checksum.
 * Files are written under another name and renamed; the cache is emptied when it passes its bound. Any
 * failure means "not cached". */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/toolchain/toolchain.h"

enum { BOUND_MB = 512 };

const char *cache_folder(char *buffer, size_t n) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int wrote = base && *base ? snprintf(buffer, n, "%s/weir", base) : snprintf(buffer, n, "%s/.cache/weir", home ? home : "");
    return wrote > 0 && (size_t)wrote < n && (base || home) ? buffer : NULL;
}

static bool entry_path(const char *key, char *path, size_t n) {
    char folder[2048];
    return cache_folder(folder, sizeof folder) && (size_t)snprintf(path, n, "%s/%s.o", folder, key) < n;
}

void *cache_get(const char *key, size_t *n) {
    char path[2200];
    struct stat st;
    if (!entry_path(key, path, sizeof path)) return NULL;
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    uint64_t sum = 0;
    size_t bytes = fstat(fileno(f), &st) || st.st_size < 9 ? 0 : (size_t)st.st_size - 8;
    void *at = bytes ? malloc(bytes) : NULL;
    bool ok = at && fread(at, 1, bytes, f) == bytes && fread(&sum, 1, 8, f) == 8 && sum == hash_bytes(0, at, bytes);
    fclose(f);
    if (!ok) {
        free(at);
        unlink(path);
        return NULL;
    }
    *n = bytes;
    return at;
}

static void make_folders(const char *folder) {
    char part[2048];
    for (size_t i = 1; i <= strlen(folder) && i < sizeof part; i++)
        if (folder[i] == '/' || !folder[i]) {
            memcpy(part, folder, i);
            part[i] = '\0';
            mkdir(part, 0700);
        }
}

void cache_put(const char *key, const void *at, size_t n) {
    char folder[2048], path[2200], temporary[2300];
    if (!cache_folder(folder, sizeof folder) || !entry_path(key, path, sizeof path)) return;
    make_folders(folder);
    if (cache_size(false) > (int64_t)BOUND_MB << 20) cache_size(true);
    snprintf(temporary, sizeof temporary, "%s.%ld.%p", path, (long)getpid(), at);
    FILE *f = fopen(temporary, "wb");
    if (!f) return;
    uint64_t sum = hash_bytes(0, at, n);
    bool ok = fwrite(at, 1, n, f) == n && fwrite(&sum, 1, 8, f) == 8;
    if (fclose(f) || !ok || rename(temporary, path)) unlink(temporary);
}

int64_t cache_size(bool clear) {
    char folder[2048], path[4096];
    int64_t bytes = 0;
    DIR *dir = cache_folder(folder, sizeof folder) ? opendir(folder) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct stat st;
        if (d->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        if (stat(path, &st)) continue;
        bytes += st.st_size;
        if (clear) unlink(path);
    }
    if (dir) closedir(dir);
    return bytes;
}
