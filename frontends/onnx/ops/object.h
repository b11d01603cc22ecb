/* SPDX-License-Identifier: Apache-2.0 */
/* Types and containers of sequences, optionals and maps, for the families that carry them. */
#ifndef WEIR_FRONTENDS_ONNX_OBJECT_H
#define WEIR_FRONTENDS_ONNX_OBJECT_H

#include "nn.h"

/* Is `t` a sequence, an optional or a map? */
bool object_is(const Type *t);
bool object_same(const Type *a, const Type *b);
/* The least type that values of both have: dims that differ are unknown, an optional holds what is
 * none. An element type that is unknown (of a sequence that is empty) fits all. False: there is
 * none. */
bool object_join(Infer *in, const Type *a, const Type *b, Type *to);
Type object_of(Infer *in, TypeKind kind, const Type *elem);
/* What a dynamic element of type `t` is as a value: unknown dims become symbols that object_unbox
 * defines. `declared` (may be NULL) gives a rank that is not known. */
Type object_opened(Infer *in, const Type *t, const Type *declared, const char *what);
/* Does `d` only hold inside a body: does it name a symbol from `first` on? */
bool object_inner(const Infer *in, Dim d, int first);
/* `t` without object_inner dims. */
Type object_closed(Infer *in, const Type *t, int first);

/* A value as an object container: tensors, of elements of type t, are boxed. */
int object_box(Lower *lo, int cont, DType t);
/* A handle container. */
int object_tmp(Lower *lo, const char *name);
/* The value behind the handle in `object` into `to`, a tensor's of elements of type t; defines the
 * symbols of its dims that nothing has defined before. */
void object_unbox(Lower *lo, int object, int to, DType t);
/* Defines such symbols of `to` from the elements of `dims`. */
void object_define(Lower *lo, int dims, int to);
/* `cont` with the type `to` says: a check at run time where the shapes are not equal as texts. */
int object_cast(Lower *lo, int cont, const Type *to);

#endif
