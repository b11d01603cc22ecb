/* SPDX-License-Identifier: Apache-2.0 */
/* numpy's .npy format, versions 1 to 3, C order, little endian. bfloat16 and smaller floats have no
 * npy form and go to .pb. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/tensors.h"

typedef struct NpyType {
    const char *descr;
    int32_t dtype;
} NpyType;
static const NpyType npy_types[] = {
    {"<f4", WEIR_F32}, {"<f8", WEIR_F64}, {"<f2", WEIR_F16}, {"|b1", WEIR_BOOL},  {"|u1", WEIR_U8},
    {"|i1", WEIR_I8},  {"<u2", WEIR_U16}, {"<i2", WEIR_I16}, {"<u4", WEIR_U32},   {"<i4", WEIR_I32},
    {"<u8", WEIR_U64}, {"<i8", WEIR_I64}, {"<c8", WEIR_C64}, {"<c16", WEIR_C128},
};
enum { NPY_TYPES = sizeof npy_types / sizeof *npy_types };

/* The value text after 'key': in the header's dict. */
static const char *header_value(const char *header, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(header, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    while (*at == ' ' || *at == ':') at++;
    return at;
}

static bool parse_header(HostTensor *h, const char *header, char *error) {
    const char *descr = header_value(header, "descr"),
               *order = header_value(header, "fortran_order");
    const char *shape = header_value(header, "shape");
    if (!descr || *descr != '\'' || !order || !shape || *shape != '(')
        return snprintf(error, 256, "damaged .npy header"), false;
    if (strncmp(order, "False", 5))
        return snprintf(error, 256, "Fortran order: save it with numpy.ascontiguousarray"), false;
    h->t.dtype = 0;
    for (int i = 0; i < NPY_TYPES; i++)
        if (strncmp(descr + 1, npy_types[i].descr, strlen(npy_types[i].descr)) == 0)
            h->t.dtype = npy_types[i].dtype;
    if (!h->t.dtype)
        return snprintf(error, 256, "dtype %.12s is not one of a model's types", descr), false;
    h->t.rank = 0;
    for (shape++; *shape && *shape != ')';) {
        char *end;
        long long v = strtoll(shape, &end, 10);
        if (end == shape) {
            shape++;
            continue;
        }
        if (v < 0 || h->t.rank == WEIR_RANK_MAX)
            return snprintf(error, 256, "bad shape in .npy header"), false;
        h->t.dims[h->t.rank++] = v;
        shape = end;
    }
    return true;
}

bool npy_read(HostTensor *h, const char *path, char *error) {
    size_t n, at = 10, header_bytes;
    memset(h, 0, sizeof *h);
    unsigned char *file = (unsigned char *)read_whole(path, &n, error);
    if (!file) return false;
    bool ok = n >= 12 && memcmp(file, "\x93NUMPY", 6) == 0;
    if (ok && file[6] == 1) {
        header_bytes = file[8] | (size_t)file[9] << 8;
    } else if (ok) {
        header_bytes =
            file[8] | (size_t)file[9] << 8 | (size_t)file[10] << 16 | (size_t)file[11] << 24;
        at = 12;
    }
    if (!ok || header_bytes > n - at) {
        free(file);
        return snprintf(error, 256, "\"%.180s\" is not a .npy file", path), false;
    }
    char *header = host_alloc(header_bytes + 1, 1);
    memcpy(header, file + at, header_bytes);
    ok = parse_header(h, header, error);
    free(header);
    if (ok && !host_has_size(&h->t))
        ok = (snprintf(error, 256, "\"%.180s\" has a shape of no size", path), false);
    size_t bytes = ok ? (size_t)host_bytes(&h->t) : 0;
    if (ok && n - at - header_bytes < bytes)
        ok = (snprintf(error, 256, "\"%.180s\" is cut short", path), false);
    if (ok) {
        h->t.data = host_alloc(bytes, 1);
        memcpy(h->t.data, file + at + header_bytes, bytes);
    }
    free(file);
    return ok;
}

static bool npy_write(const HostTensor *h, const char *descr, const char *path, char *error) {
    char dict[512];
    int n =
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < h->t.rank; i++)
        n += snprintf(dict + n, sizeof dict - (size_t)n, "%lld,", (long long)h->t.dims[i]);
    n += snprintf(dict + n, sizeof dict - (size_t)n, "), }");
    int total = (10 + n + 1 + 63) / 64 * 64;
    size_t bytes = (size_t)host_bytes(&h->t);
    char *file = host_alloc((size_t)total + bytes, 1);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (char)((total - 10) & 255);
    file[9] = (char)((total - 10) >> 8);
    memcpy(file + 10, dict, (size_t)n);
    memset(file + 10 + n, ' ', (size_t)(total - 10 - n));
    file[total - 1] = '\n';
    memcpy(file + total, h->t.data, bytes);
    bool ok = write_whole(path, file, (size_t)total + bytes, error);
    free(file);
    return ok;
}

bool host_write(const HostTensor *h, const char *dir, char *error) {
    const char *descr = NULL;
    for (int i = 0; i < NPY_TYPES; i++)
        if (npy_types[i].dtype == h->t.dtype) descr = npy_types[i].descr;
    size_t n = strlen(dir) + strlen(h->name) + 8;
    char *path = host_alloc(n, 1);
    snprintf(path, n, "%s/%s.%s", dir, h->name, descr ? "npy" : "pb");
    for (char *c = path + strlen(dir) + 1; *c; c++)
        if (*c == '/') *c = '_';
    bool ok = descr ? npy_write(h, descr, path, error) : pb_write(h, path, error);
    free(path);
    return ok;
}
