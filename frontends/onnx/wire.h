/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf wire format, decoded by tables into structs whose strings and data are views.
 *
 * A Message describes a struct: one row per field that we read; others are skipped, so files of
 * newer schemas are read too. Every struct starts with `uint64_t has`, a bit per field number below
 * 64 that was met. Singular fields met twice keep the last value, as the format demands. */
#ifndef WEIR_FRONTENDS_ONNX_WIRE_H
#define WEIR_FRONTENDS_ONNX_WIRE_H

#include "ir/base.h"

typedef struct Span {
    const uint8_t *at;
    size_t n;
} Span;

/* Fixed-width numbers; cap 0: a view. */
typedef struct Packed {
    const uint8_t *at;
    size_t n, cap; /* bytes */
} Packed;

typedef enum {
    WIRE_INT,     /* int64_t: varint */
    WIRE_FLOAT,   /* float: 32 bits */
    WIRE_STRING,  /* const char *: interned; no NUL inside */
    WIRE_BYTES,   /* Span: a view */
    WIRE_MESSAGE, /* struct * */
    WIRE_INTS,
    WIRE_FLOATS,
    WIRE_STRINGS,
    WIRE_BYTESES,
    WIRE_MESSAGES, /* VECs of the above; structs
                     are elements, not pointers */
    WIRE_PACKED    /* Packed: little-endian; a view when they stand together */
} WireKind;

typedef struct Message Message;
typedef struct WireField {
    int number;
    WireKind kind;
    size_t offset;
    const Message *message;
} WireField;
struct Message {
    const char *name;
    size_t size;
    const WireField *field; /* ended by number 0 */
};

/* Fills `to` (zeroed). E_MODEL for bytes that are not such a message, E_LIMIT beyond the limits. */
void wire_decode(Arena *arena, Span bytes, const Message *message, void *to);

enum { WIRE_DEPTH = 200, WIRE_MESSAGES_MAX = 20000000 };

#endif
