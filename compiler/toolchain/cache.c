/* SPDX-License-Identifier: Apache-2.0 */
/* The object cache: a unit that was compiled before is not compiled again.
 *
 * A key is the hash of all that decides an object: the C text, the flags, the pass list, which
 * clang and which LLVM. (Weir's own code decides the object through these alone.) Entries lie in
 * sixteen folders by the key's first digit, `objects/0` .. `objects/f`; each starts with a magic
 * word and the hash of its content, so that a damaged one is noticed, removed and made again. An
 * entry is written under a name of its own and renamed; a hit renews its time; a store that fills
 * its folder beyond its share of the limit removes the oldest entries there. The folder belongs to
 * the user alone, else it is not used: who can write there can run code. */
#include "private.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <llvm-c/Core.h>
#include <llvm-c/blake3.h>

enum { SHARDS = 16, HEAD_BYTES = 8 + HASH_BYTES };
static const char entry_magic[8] = "WEIROBJ1";
#define DEFAULT_LIMIT (INT64_C(1) << 30)

struct Cache {
    char *folder, *identity;
};

/* ---- folders --------------------------------------------------------------------------------- */

static int64_t limit_bytes(void) {
    const char *set = getenv("WEIR_CACHE_BYTES");
    char *end;
    long long n = set ? strtoll(set, &end, 10) : 0;
    return set && *set && !*end && n >= 0 ? n : DEFAULT_LIMIT;
}

static bool make_folders(char *path) {
    for (char *at = path + 1;; at++) {
        if (*at && *at != '/') continue;
        char kept = *at;
        *at = 0;
        bool fine = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = kept;
        if (!fine) return false;
        if (!kept) return true;
    }
}

/* Whether or not it exists; malloc'ed; NULL when the environment names none. */
static char *folder_name(void) {
    const char *base = getenv("XDG_CACHE_HOME");
    if (base && base[0] == '/') return message("%s/weir", base);
    base = getenv("HOME");
    return base && base[0] == '/' ? message("%s/.cache/weir", base) : NULL;
}

static bool ours_alone(const char *folder) {
    struct stat st;
    return stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 022) == 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void put_text(void *hasher, const char *text) {
    llvm_blake3_hasher_update(hasher, text, strlen(text) + 1);
}

void cache_key(const Cache *cache, const char *text, const char *const *flags,
               unsigned char key[HASH_BYTES]) {
    llvm_blake3_hasher hasher;
    llvm_blake3_hasher_init(&hasher);
    put_text(&hasher, cache->identity);
    put_text(&hasher, llvm_pass_list);
    clang_key(flags, put_text, &hasher);
    put_text(&hasher, text);
    llvm_blake3_hasher_finalize(&hasher, key, HASH_BYTES);
}

/* A program or library as its package installed it: path, size and time. */
static char *file_identity(const char *path) {
    struct stat st;
    char *real = path ? realpath(path, NULL) : NULL;
    if (!real || stat(real, &st) != 0) {
        free(real);
        return strdup("?");
    }
    char *text = message("%s %lld %lld.%09ld", real, (long long)st.st_size,
                         (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    free(real);
    return text;
}

Cache *cache_open(const char *clang) {
    Cache *cache = calloc(1, sizeof *cache);
    if (!cache) return NULL;
    cache->folder = folder_name();
    if (cache->folder && make_folders(cache->folder) && ours_alone(cache->folder)) {
        Dl_info llvm = {0};
        dladdr((const void *)(uintptr_t)LLVMContextCreate, &llvm);
        char *c = file_identity(clang), *l = file_identity(llvm.dli_fname);
        cache->identity = message("weir 1; %s; %s", c, l);
        free(c);
        free(l);
        if (cache->identity) return cache;
    }
    cache_close(cache);
    return NULL;
}

void cache_close(Cache *cache) {
    if (!cache) return;
    free(cache->folder);
    free(cache->identity);
    free(cache);
}

static char *entry_path(const Cache *cache, const unsigned char key[HASH_BYTES]) {
    char hex[2 * HASH_BYTES + 1];
    for (int i = 0; i < HASH_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", key[i]);
    return message("%s/objects/%c/%s", cache->folder, hex[0], hex + 1);
}

/* ---- load ------------------------------------------------------------------------------------ */

static bool read_entry(int fd, Span *object) {
    struct stat st;
    char head[HEAD_BYTES];
    unsigned char hash[HASH_BYTES];
    if (fstat(fd, &st) != 0 || st.st_size <= HEAD_BYTES ||
        read(fd, head, HEAD_BYTES) != HEAD_BYTES ||
        memcmp(head, entry_magic, sizeof entry_magic) != 0)
        return false;
    object->n = (size_t)st.st_size - HEAD_BYTES;
    object->at = malloc(object->n);
    if (!object->at) return false;
    llvm_blake3_hasher hasher;
    llvm_blake3_hasher_init(&hasher);
    if (read(fd, object->at, object->n) == (ssize_t)object->n) {
        llvm_blake3_hasher_update(&hasher, object->at, object->n);
        llvm_blake3_hasher_finalize(&hasher, hash, HASH_BYTES);
        if (memcmp(hash, head + sizeof entry_magic, HASH_BYTES) == 0) return true;
    }
    free(object->at);
    return false;
}

bool cache_load(Cache *cache, const unsigned char key[HASH_BYTES], Span *object) {
    char *path = entry_path(cache, key);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool hit = fd >= 0 && read_entry(fd, object);
    if (hit) futimens(fd, NULL);
    if (fd >= 0 && !hit) unlink(path);
    if (fd >= 0) close(fd);
    free(path);
    return hit;
}

/* ---- store ----------------------------------------------------------------------------------- */

typedef struct Entry {
    char name[2 * HASH_BYTES + 16];
    int64_t bytes;
    struct timespec used;
} Entry;

static int older_first(const void *a, const void *b) {
    const struct timespec *x = &((const Entry *)a)->used, *y = &((const Entry *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static bool entry_stat(int folder, const char *name, Entry *entry) {
    struct stat st;
    if (name[0] == '.' || strlen(name) >= sizeof entry->name ||
        fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    strcpy(entry->name, name);
    entry->bytes = st.st_size;
    entry->used = st.st_mtim;
    return true;
}

/* Removes the oldest entries of one folder until three quarters of its share are left. */
static void trim(const char *shard, int64_t share) {
    DIR *folder = opendir(shard);
    if (!folder) return;
    Entry *entry = NULL;
    size_t n = 0, room = 0;
    int64_t bytes = 0;
    for (struct dirent *d; (d = readdir(folder));) {
        if (n == room) {
            Entry *more = realloc(entry, (room = 2 * room + 64) * sizeof *entry);
            if (!more) break;
            entry = more;
        }
        if (entry_stat(dirfd(folder), d->d_name, &entry[n])) bytes += entry[n++].bytes;
    }
    if (bytes > share) {
        qsort(entry, n, sizeof *entry, older_first);
        for (size_t i = 0; i < n && bytes > share / 4 * 3; i++)
            if (unlinkat(dirfd(folder), entry[i].name, 0) == 0) bytes -= entry[i].bytes;
    }
    free(entry);
    closedir(folder);
}

static bool write_entry(int fd, Span object) {
    char head[HEAD_BYTES];
    llvm_blake3_hasher hasher;
    llvm_blake3_hasher_init(&hasher);
    llvm_blake3_hasher_update(&hasher, object.at, object.n);
    memcpy(head, entry_magic, sizeof entry_magic);
    llvm_blake3_hasher_finalize(&hasher, (uint8_t *)head + sizeof entry_magic, HASH_BYTES);
    return write(fd, head, HEAD_BYTES) == HEAD_BYTES &&
           write(fd, object.at, object.n) == (ssize_t)object.n;
}

void cache_store(Cache *cache, const unsigned char key[HASH_BYTES], Span object) {
    char *path = entry_path(cache, key), *temporary = NULL;
    if (!path) return;
    char *slash = strrchr(path, '/');
    *slash = 0;
    if (make_folders(path)) temporary = message("%s/new-XXXXXX", path);
    int fd = temporary ? mkostemp(temporary, O_CLOEXEC) : -1;
    if (fd >= 0) {
        *slash = '/';
        if (!write_entry(fd, object) || rename(temporary, path) != 0) unlink(temporary);
        close(fd);
        *slash = 0;
        trim(path, limit_bytes() / SHARDS);
    }
    free(temporary);
    free(path);
}

/* ---- for people ------------------------------------------------------------------------------ */

/* Walks all entries; with `remove`, unlinks them. errno of the first failure. */
static int walk(const char *folder, bool remove, CacheInfo *info) {
    int error = 0;
    for (int s = 0; s < SHARDS; s++) {
        char *shard = message("%s/objects/%x", folder, s);
        DIR *dir = shard ? opendir(shard) : NULL;
        free(shard);
        if (!dir) continue;
        Entry entry;
        for (struct dirent *d; (d = readdir(dir));) {
            if (!entry_stat(dirfd(dir), d->d_name, &entry)) continue;
            info->bytes += entry.bytes;
            info->entries++;
            if (remove && unlinkat(dirfd(dir), entry.name, 0) != 0 && !error) error = errno;
        }
        closedir(dir);
    }
    return error;
}

CacheInfo cache_info(Arena *arena) {
    CacheInfo info = {.limit = limit_bytes()};
    char *folder = folder_name();
    if (folder) {
        info.folder = arena_printf(arena, "%s", folder);
        walk(folder, false, &info);
    }
    free(folder);
    return info;
}

void cache_clear(Arena *arena) {
    CacheInfo info = {0};
    char *folder = folder_name();
    int error = folder ? walk(folder, true, &info) : 0;
    const char *name = folder ? arena_printf(arena, "%s", folder) : "";
    free(folder);
    if (error)
        fail(arena_ctx(arena), E_FILE,
             "cannot remove all entries of the cache \"%s\": %s; remove the folder "
             "yourself",
             name, strerror(error));
}
