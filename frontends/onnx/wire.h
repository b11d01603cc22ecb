/* SPDX-License-Identifier: Apache-2.0 */
/* What stands before protobuf-c: the bytes of a model checked, and its weights left where they are.
 *
 * protobuf-c copies every field and trusts lengths, counts and nesting. So the bytes are walked
 * first, by the descriptors that protobuf-c generates: what is broken is refused with its place,
 * and a slim copy is written for protobuf-c in which the data of a weight is replaced by its place
 * in the file. Fields that nobody reads are left out. */
#ifndef WEIR_FRONTENDS_ONNX_WIRE_H
#define WEIR_FRONTENDS_ONNX_WIRE_H

#include "ir/base.h"

#include <protobuf-c/protobuf-c.h>

typedef struct Span {
    const uint8_t *at;
    size_t n;
} Span;

/* A field that the walk treats in its own way. */
typedef struct WireField {
    const ProtobufCMessageDescriptor *of;
    uint32_t number;
    /* PLACE: a bytes field or a list of numbers of which only the place is kept.
     * NEWER: a field that the generated schema lacks. */
    enum { WIRE_PLACE, WIRE_NEWER } kind;
    ProtobufCType type;                        /* of a newer field: bytes, string or message */
    const ProtobufCMessageDescriptor *message; /* of a newer field that is one */
} WireField;

/* The slim copy of `bytes`, a message of kind `d`. `field` ends with a row whose `of` is NULL.
 * E_MODEL for bytes that are not such a message, E_LIMIT beyond the limits. */
Span wire_slim(Arena *arena, Span bytes, const ProtobufCMessageDescriptor *d,
               const WireField *field);

/* The next occurrence of a newer field, or the next piece of a field that is a place, from *next on
 * (0 at first); at is NULL when there are no more. */
Span wire_newer(const ProtobufCMessage *m, uint32_t number, unsigned *next);
Span wire_place(const ProtobufCMessage *m, uint32_t number, unsigned *next);

enum { WIRE_DEPTH = 200, WIRE_MESSAGES_MAX = 20000000 };

#endif
