/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto and SparseTensorProto to values. Raw, float, double and external data stay where they
 * are; integers that the format holds as varints are unpacked, sparse tensors are filled out. */
#include "import.h"

#include <string.h>

typedef enum {
    FLOAT_DATA,
    DOUBLE_DATA,
    INT32_DATA,
    INT64_DATA,
    UINT64_DATA,
    STRING_DATA
} DataField;

static DataField data_field(DType t) {
    switch (t) {
    case F32:
    case C64: return FLOAT_DATA;
    case F64:
    case C128: return DOUBLE_DATA;
    case I64: return INT64_DATA;
    case U64:
    case U32: return UINT64_DATA;
    case STRING: return STRING_DATA;
    default: return INT32_DATA;
    }
}

static int64_t checked_bytes(Import *im, DType t, int64_t count) {
    int64_t bits;
    if (__builtin_mul_overflow(count, dtype_bits(t), &bits) || bits > INT64_MAX - 7)
        fail(im->ctx, E_LIMIT, "tensor has %lld elements of %s: more than 64 bits can count",
             (long long)count, dtype_name(t));
    return dtype_bytes(t, count);
}

static Type tensor_type(Import *im, DType t, const int64_t *dims, size_t rank, int64_t *count) {
    Type type = {TYPE_TENSOR, t, (int)rank, NULL, NULL};
    if (rank > RANK_MAX)
        fail(im->ctx, E_LIMIT, "tensor has rank %zu: the most is %d", rank, RANK_MAX);
    Dim *shape = NEW_ARRAY(im->arena, Dim, rank);
    bool empty = false;
    *count = 1;
    for (size_t i = 0; i < rank; i++) {
        int64_t d = dims[i];
        if (d < 0)
            fail(im->ctx, E_MODEL, "tensor has a dim of %lld: it must not be negative",
                 (long long)d);
        empty = empty || d == 0;
        if (!empty && __builtin_mul_overflow(*count, d, count))
            fail(im->ctx, E_LIMIT, "tensor has more elements than 64 bits can count");
        shape[i] = dim_const(im->ctx, d);
    }
    if (empty) *count = 0;
    type.shape = shape;
    return type;
}

_Noreturn static void wrong_size(Import *im, const char *field, int64_t has, int64_t need) {
    fail(im->ctx, E_MODEL,
         "tensor has %lld of %s, its shape and type need %lld: the file is damaged", (long long)has,
         field, (long long)need);
}

/* Entries of a varint list hold one element each; of sub-byte types one byte of packed elements. */
static const void *unpack(Import *im, const void *list, size_t n, size_t entry, DType t,
                          int64_t count, const char *field) {
    int64_t bytes = dtype_bytes(t, count);
    bool sub = dtype_bits(t) < 8;
    int64_t need = sub ? bytes : count;
    if ((int64_t)n != need) wrong_size(im, field, (int64_t)n, need);
    size_t width = sub ? 1 : (size_t)dtype_bits(t) / 8;
    if (width == entry) return list;
    uint8_t *to = arena_alloc(im->arena, (size_t)bytes);
    for (size_t i = 0; i < n; i++) memcpy(to + i * width, (const char *)list + i * entry, width);
    return to;
}

void import_strings(Import *im, const ProtobufCBinaryData *s, size_t n, const char *const **text,
                    const int64_t **bytes) {
    const char **at = NEW_ARRAY(im->arena, const char *, n);
    int64_t *length = NEW_ARRAY(im->arena, int64_t, n);
    for (size_t i = 0; i < n; i++) {
        at[i] = (const char *)s[i].data;
        length[i] = (int64_t)s[i].len;
    }
    *text = at;
    *bytes = length;
}

/* Bools are 0 or 1 from here on, whatever the file holds. */
static const void *clean_bools(Import *im, const uint8_t *data, int64_t n) {
    uint8_t *to = NULL;
    for (int64_t i = 0; i < n && !to; i++)
        if (data[i] > 1) to = arena_copy(im->arena, data, (size_t)n);
    for (int64_t i = 0; to && i < n; i++) to[i] = to[i] != 0;
    return to ? to : data;
}

static const void *view(Import *im, const char *field, Span s, int64_t bytes) {
    if ((int64_t)s.n != bytes) wrong_size(im, field, (int64_t)s.n, bytes);
    return bytes ? s.at : (const void *)"";
}

/* Raw data as elements lie in memory: the same bytes but for types that files pack. */
static const void *in_memory(Import *im, DType type, const void *raw, int64_t count) {
    int64_t bytes = dtype_bytes(type, count);
    if (bytes == dtype_raw_bytes(type, count)) return raw;
    void *to = arena_alloc(im->arena, (size_t)bytes);
    dtype_unpack(type, raw, count, to);
    return to;
}

static const void *tensor_data(Import *im, const OnnxTensor *t, DType type, int64_t count,
                               int64_t bytes) {
    int64_t packed = dtype_raw_bytes(type, count);
    if (t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return in_memory(im, type, import_external(im, t, packed), count);
    Span raw = onnx_data(im->arena, t, ONNX_RAW_DATA);
    if (raw.at) return in_memory(im, type, view(im, "raw_data bytes", raw, packed), count);
    switch (data_field(type)) {
    case FLOAT_DATA:
        return view(im, "float_data bytes", onnx_data(im->arena, t, ONNX_FLOAT_DATA), bytes);
    case DOUBLE_DATA:
        return view(im, "double_data bytes", onnx_data(im->arena, t, ONNX_DOUBLE_DATA), bytes);
    case INT64_DATA:
        return unpack(im, t->int64_data, t->n_int64_data, 8, type, count, "int64_data");
    case UINT64_DATA:
        return unpack(im, t->uint64_data, t->n_uint64_data, 8, type, count, "uint64_data");
    default: return unpack(im, t->int32_data, t->n_int32_data, 4, type, count, "int32_data");
    }
}

Value import_tensor(Import *im, const OnnxTensor *t, const char *name) {
    const char *before = im->ctx->where.tensor;
    im->ctx->where.tensor = name;
    DType type = dtype_from_onnx(t->data_type);
    int64_t count;
    if (type == DT_NONE)
        fail(im->ctx, E_UNSUPPORTED, "tensor has data type %d, which ONNX does not define",
             t->data_type);
    Value v = {.name = name,
               .kind = VALUE_PARAM,
               .type = tensor_type(im, type, t->dims, t->n_dims, &count)};
    if (type == STRING) {
        if ((int64_t)t->n_string_data != count)
            wrong_size(im, "string_data", (int64_t)t->n_string_data, count);
        import_strings(im, t->string_data, t->n_string_data, &v.strings, &v.string_bytes);
    } else {
        v.data_bytes = checked_bytes(im, type, count);
        v.data = tensor_data(im, t, type, count, v.data_bytes);
        if (!v.data) v.data = "";
        if (type == BOOL) v.data = clean_bools(im, v.data, count);
    }
    im->ctx->where.tensor = before;
    return v;
}

/* ---- sparse --------------------------------------------------------------------------------- */

enum { SPARSE_MAX = 1 << 30 };

static int64_t sparse_place(Import *im, const Value *indices, const OnnxSparse *s, int64_t k,
                            int64_t count) {
    int64_t place = 0;
    if (indices->type.rank == 1) {
        place = bits_to_int(I64, mem_get(I64, indices->data, k));
    } else {
        for (size_t i = 0; i < s->n_dims; i++) {
            int64_t at =
                bits_to_int(I64, mem_get(I64, indices->data, k * (int64_t)s->n_dims + (int64_t)i));
            if (at < 0 || at >= s->dims[i])
                fail(im->ctx, E_MODEL, "sparse tensor has index %lld in a dim of %lld",
                     (long long)at, (long long)s->dims[i]);
            place = place * s->dims[i] + at;
        }
    }
    if (place < 0 || place >= count)
        fail(im->ctx, E_MODEL, "sparse tensor has index %lld, it has %lld elements",
             (long long)place, (long long)count);
    return place;
}

Value import_sparse(Import *im, const OnnxSparse *s, const char *name) {
    if (!s->values || !s->indices)
        fail(im->ctx, E_MODEL, "sparse tensor \"%s\" lacks values or indices", name);
    Value values = import_tensor(im, s->values, name),
          indices = import_tensor(im, s->indices, name);
    DType t = values.type.dtype;
    int64_t count, n = type_count(&values.type), ni = type_count(&indices.type);
    Value v = {
        .name = name, .kind = VALUE_PARAM, .type = tensor_type(im, t, s->dims, s->n_dims, &count)};
    bool pairs = indices.type.rank == 2 && ni == n * (int64_t)s->n_dims;
    if (indices.type.dtype != I64 || t == STRING || values.type.rank != 1 ||
        !(pairs || (indices.type.rank == 1 && ni == n)))
        fail(im->ctx, E_MODEL, "sparse tensor \"%s\" has values and indices that do not fit", name);
    if (count > SPARSE_MAX)
        fail(im->ctx, E_LIMIT, "sparse tensor \"%s\" has too many elements", name);
    v.data_bytes = checked_bytes(im, t, count);
    uint8_t *data = arena_alloc(im->arena, (size_t)v.data_bytes);
    for (int64_t k = 0; k < n; k++) {
        int64_t place = sparse_place(im, &indices, s, k, count);
        if (dtype_bits(t) > 64)
            memcpy(data + place * 16, (const uint8_t *)values.data + k * 16, 16);
        else
            mem_set(t, data, place, mem_get(t, values.data, k));
    }
    v.data = data;
    return v;
}
