/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto files read (and, by pb_value.c, those of other values). Values may stand in raw_data
 * or in one of the typed fields; types newer than the schema arrive as plain numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "tools/weir/pb.h"

static size_t stored_values(const Onnx__TensorProto *p, DType t) {
    if (t == F32 || t == C64) return p->n_float_data;
    if (t == F64 || t == C128) return p->n_double_data;
    if (t == I64) return p->n_int64_data;
    if (t == U64 || t == U32) return p->n_uint64_data;
    return p->n_int32_data;
}

/* Typed fields: int32_data holds the bits of small floats, and packed bytes of sub-byte types. */
static void take_values(HostTensor *h, const Onnx__TensorProto *p, DType t) {
    size_t n = stored_values(p, t);
    bool packed = dtype_bits(t) < 8;
    DType half = t == C64 ? F32 : t == C128 ? F64 : t;
    for (size_t i = 0; i < n; i++) {
        if (t == F32 || t == C64)
            mem_set(half, h->t.data, (int64_t)i, bits_of_double(F32, p->float_data[i]));
        else if (t == F64 || t == C128)
            mem_set(half, h->t.data, (int64_t)i, bits_of_double(F64, p->double_data[i]));
        else if (t == I64)
            mem_set(t, h->t.data, (int64_t)i, (Bits)p->int64_data[i]);
        else if (t == U64 || t == U32)
            mem_set(t, h->t.data, (int64_t)i, (Bits)p->uint64_data[i]);
        else if (packed)
            ((uint8_t *)h->t.data)[i] = (uint8_t)p->int32_data[i];
        else
            mem_set(t, h->t.data, (int64_t)i,
                    (Bits)(uint32_t)p->int32_data[i] &
                        (dtype_bits(t) == 32 ? ~0u : (1u << dtype_bits(t)) - 1));
    }
}

static bool take_strings(HostTensor *h, const Onnx__TensorProto *p, char *error) {
    weir_string *s = host_alloc(p->n_string_data, sizeof *s);
    for (size_t i = 0; i < p->n_string_data; i++)
        s[i] = (weir_string){(char *)p->string_data[i].data, (int64_t)p->string_data[i].len};
    bool ok = (int64_t)p->n_string_data == host_count(&h->t) && host_flatten(h, s);
    free(s);
    return ok || (snprintf(error, 256, "string_data does not fit the shape"), false);
}

static bool take_tensor(HostTensor *h, const Onnx__TensorProto *p, char *error) {
    DType t = dtype_from_onnx((int)p->data_type);
    if (t == DT_NONE)
        return snprintf(error, 256, "type %d is none of ONNX", (int)p->data_type), false;
    if (p->n_dims > WEIR_RANK_MAX)
        return snprintf(error, 256, "rank %zu is above %d", p->n_dims, WEIR_RANK_MAX), false;
    h->name = p->name ? host_text(p->name) : NULL;
    h->t.dtype = (int32_t)p->data_type;
    h->t.rank = (int32_t)p->n_dims;
    for (size_t i = 0; i < p->n_dims; i++) h->t.dims[i] = p->dims[i];
    if (!host_has_size(&h->t)) return snprintf(error, 256, "the shape has no size"), false;
    if (t == STRING) return take_strings(h, p, error);
    bool raw = p->has_raw_data && p->raw_data.len;
    DType unit = t == C64 ? F32 : t == C128 ? F64 : t;
    size_t bytes = (size_t)host_bytes(&h->t),
           room = dtype_bits(t) < 8 ? bytes : bytes * 8 / (size_t)dtype_bits(unit);
    if (raw && p->raw_data.len < (size_t)dtype_raw_bytes(t, host_count(&h->t)))
        return snprintf(error, 256, "raw_data is shorter than the shape asks"), false;
    if (!raw && stored_values(p, t) != room)
        return snprintf(error, 256, "%zu values, the shape asks for %zu", stored_values(p, t),
                        room),
               false;
    h->t.data = host_alloc(bytes + 16, 1);
    if (raw)
        dtype_unpack(t, p->raw_data.data, host_count(&h->t), h->t.data);
    else
        take_values(h, p, t);
    return true;
}

bool pb_tensor(HostTensor *h, const uint8_t *at, size_t n, char *error) {
    Onnx__TensorProto *p = onnx__tensor_proto__unpack(NULL, n, at);
    if (!p) return snprintf(error, 256, "not a TensorProto"), false;
    bool ok = take_tensor(h, p, error);
    onnx__tensor_proto__free_unpacked(p, NULL);
    return ok;
}

bool pb_read(HostTensor *h, const char *path, const char *object, char *error) {
    size_t n;
    char why[256] = "";
    memset(h, 0, sizeof *h);
    char *file = read_whole(path, &n, error);
    if (!file) return false;
    bool ok = object ? pb_value(h, (uint8_t *)file, n, object, why)
                     : pb_tensor(h, (uint8_t *)file, n, why);
    free(file);
    if (!ok) snprintf(error, 256, "\"%.120s\": %.120s", path, why);
    if (!ok) host_free(h);
    return ok;
}
