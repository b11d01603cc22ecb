/* SPDX-License-Identifier: Apache-2.0 */
/* Writing small ONNX models as bytes: a protobuf writer of a few lines, so that tests need no
 * files. */
#ifndef WEIR_TESTS_ONNX_BUILD_H
#define WEIR_TESTS_ONNX_BUILD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Blob {
    unsigned char *at;
    size_t n;
} Blob;

static inline void put(Blob *b, const void *from, size_t n) {
    b->at = realloc(b->at, b->n + n + 1);
    memcpy(b->at + b->n, from, n);
    b->n += n;
}

static inline void put_varint(Blob *b, uint64_t v) {
    do {
        unsigned char c = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        put(b, &c, 1);
        v >>= 7;
    } while (v);
}

static inline void put_int(Blob *b, int field, int64_t v) {
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, (uint64_t)v);
}

static inline void put_bytes(Blob *b, int field, const void *from, size_t n) {
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, n);
    put(b, from, n);
}

static inline void put_text(Blob *b, int field, const char *s) {
    put_bytes(b, field, s, strlen(s));
}

/* Takes the message over. */
static inline void put_message(Blob *b, int field, Blob message) {
    put_bytes(b, field, message.at ? message.at : (unsigned char *)"", message.n);
    free(message.at);
}

/* ---- ONNX ----------------------------------------------------------------------------------- */

/* Dims as text: "2,N,?" */
static inline Blob value_info(const char *name, int type, const char *dims) {
    Blob info = {0}, t = {0}, tensor = {0}, shape = {0};
    for (const char *at = dims; *at;) {
        size_t n = strcspn(at, ",");
        char word[64] = {0};
        memcpy(word, at, n);
        Blob dim = {0};
        if (word[0] >= '0' && word[0] <= '9')
            put_int(&dim, 1, atoll(word));
        else if (word[0] != '?')
            put_text(&dim, 2, word);
        put_message(&shape, 1, dim);
        at += n + (at[n] == ',');
    }
    put_int(&tensor, 1, type);
    put_message(&tensor, 2, shape);
    put_message(&t, 1, tensor);
    put_text(&info, 1, name);
    put_message(&info, 2, t);
    return info;
}

/* Names as text: "a b" */
static inline Blob node(const char *op, const char *in, const char *out) {
    Blob n = {0};
    for (int side = 1; side <= 2; side++)
        for (const char *at = side == 1 ? in : out; *at;) {
            size_t len = strcspn(at, " ");
            put_bytes(&n, side, len == 1 && *at == '-' ? "" : at, len == 1 && *at == '-' ? 0 : len);
            at += len + (at[len] == ' ');
        }
    put_text(&n, 4, op);
    return n;
}

static inline void attr_i(Blob *n, const char *name, int64_t v) {
    Blob a = {0};
    put_text(&a, 1, name);
    put_int(&a, 3, v);
    put_int(&a, 20, 2);
    put_message(n, 5, a);
}

static inline void attr_g(Blob *n, const char *name, Blob graph) {
    Blob a = {0};
    put_text(&a, 1, name);
    put_message(&a, 6, graph);
    put_int(&a, 20, 5);
    put_message(n, 5, a);
}

static inline void attr_ref(Blob *n, const char *name, const char *ref, int type) {
    Blob a = {0};
    put_text(&a, 1, name);
    put_text(&a, 21, ref);
    put_int(&a, 20, type);
    put_message(n, 5, a);
}

static inline Blob tensor_raw(const char *name, int type, int64_t dim, const void *data,
                              size_t bytes) {
    Blob t = {0};
    if (dim >= 0) put_int(&t, 1, dim);
    put_int(&t, 2, type);
    put_text(&t, 8, name);
    put_bytes(&t, 9, data, bytes);
    return t;
}

static inline Blob model(int ir, int opset, Blob graph) {
    Blob m = {0}, o = {0};
    put_int(&m, 1, ir);
    put_message(&m, 7, graph);
    put_int(&o, 2, opset);
    put_message(&m, 8, o);
    return m;
}

#endif
