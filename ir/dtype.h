/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: one row each in dtype.def; packing, names, ONNX numbers and exact conversions. */
#ifndef WEIR_IR_DTYPE_H
#define WEIR_IR_DTYPE_H

#include "base.h"

typedef enum {
    CLASS_FLOAT,
    CLASS_INT,
    CLASS_UINT,
    CLASS_BOOL,
    CLASS_COMPLEX,
    CLASS_OBJECT /* handles: numbers of strings, sequences, optionals, maps in the table of the run
                  */
} TypeClass;

typedef enum {
    DT_NONE = 0,
#define DTYPE(NAME, name, bits, class, onnx) NAME,
#include "dtype.def"
#undef DTYPE
    DT_COUNT
} DType;

const char *dtype_name(DType t); /* "f32" */
int dtype_bits(DType t);         /* 4 for i4: sub-byte types are packed, low nibble first */
TypeClass dtype_class(DType t);
int dtype_onnx(DType t);             /* TensorProto.DataType */
DType dtype_from_onnx(int onnx);     /* DT_NONE when unknown */
DType dtype_from_host(int dtype);    /* of a weir_tensor: OBJECT besides */
DType dtype_parse(const char *name); /* DT_NONE when unknown */
bool dtype_is_float(DType t);
bool dtype_is_int(DType t);    /* signed or unsigned, not bool */
bool dtype_is_signed(DType t); /* a signed integer */
/* The type arithmetic runs in: f32 for small floats, i32/u32 for integers below 32 bits, else t. */
DType dtype_compute(DType t);
/* Bytes of n packed elements, rounded up. */
int64_t dtype_bytes(DType t, int64_t n);
/* Bytes of n elements in a file's raw data: as in memory, but floats of 6 bits are packed, four in
 * three bytes, the first in the lowest bits. */
int64_t dtype_raw_bytes(DType t, int64_t n);
/* n elements from raw data to memory and back. */
void dtype_unpack(DType t, const void *from, int64_t n, void *to);
void dtype_pack(DType t, const void *from, int64_t n, void *to);
double dtype_lowest(DType t), dtype_highest(DType t);

/* A scalar's bits, zero-extended to 64 (complex is not a scalar here). */
typedef uint64_t Bits;
Bits bits_of_double(DType t, double v); /* rounds to nearest even, saturates integers, NaN -> 0 */
Bits bits_of_int(DType t, int64_t v);   /* wraps integers, rounds floats */
double bits_to_double(DType t, Bits b);
int64_t bits_to_int(DType t, Bits b); /* truncates and saturates floats, NaN -> 0 */
/* Conversion as `cvt` defines it: float->int truncates and saturates, NaN -> 0; int->int wraps;
 * x->bool is x != 0; float->float rounds to nearest even once; to f8/f4 saturates (`sat`) or goes
 * to inf/NaN as the format has it (not `sat`). */
Bits bits_convert(DType to, DType from, Bits b, bool sat);

/* Element i of a packed array. */
Bits mem_get(DType t, const void *base, int64_t i);
void mem_set(DType t, void *base, int64_t i, Bits b);

/* Text of a value as the grammar reads it: integers in decimal, floats in hex, "inf", "-0.0",
 * "nan:7fc00000"; bool as true/false. */
void bits_print(Text *out, DType t, Bits b);

#endif
