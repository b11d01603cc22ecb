/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls run on the device: those that have kernels in calls.in, order.in and scatter.in,
 * which the runtime launches, on elements of whole bytes that are numbers. Others run on the host.
 */
#include "cuda.h"

#include "runtime/device.h"

#include <string.h>

static const char *const tools[WEIR_TOOLS] = {
    [WEIR_TOOL_SORT] = "call_sort",
    [WEIR_TOOL_MERGE] = "call_merge",
    [WEIR_TOOL_SELECT] = "call_select",
    [WEIR_TOOL_COUNT] = "call_count",
    [WEIR_TOOL_DIGIT] = "call_digit",
    [WEIR_TOOL_TOPK] = "call_topk",
    [WEIR_TOOL_SUM_PARTS] = "call_sum_parts",
    [WEIR_TOOL_SUM_ALL] = "call_sum_all",
    [WEIR_TOOL_SUM] = "call_sum",
    [WEIR_TOOL_NONZERO_COUNT] = "call_nonzero_count",
    [WEIR_TOOL_NONZERO] = "call_nonzero",
    [WEIR_TOOL_HEADS] = "call_heads",
    [WEIR_TOOL_GROUPS] = "call_groups",
    [WEIR_TOOL_FIRSTS] = "call_firsts",
    [WEIR_TOOL_UNIQUE] = "call_unique",
    [WEIR_TOOL_UNIQUE_VALUES] = "call_unique_values",
    [WEIR_TOOL_NMS_KEYS] = "call_nms_keys",
    [WEIR_TOOL_NMS] = "call_nms",
    [WEIR_TOOL_NMS_ROWS] = "call_nms_rows",
    [WEIR_TOOL_PLACES] = "call_places",
    [WEIR_TOOL_REPLACE] = "call_replace",
    [WEIR_TOOL_LOOKUP] = "call_lookup",
    [WEIR_TOOL_TREES] = "call_trees",
    [WEIR_TOOL_COMBINE + WEIR_F32] = "call_combine_f32",
    [WEIR_TOOL_COMBINE + WEIR_U8] = "call_combine_u8",
    [WEIR_TOOL_COMBINE + WEIR_I8] = "call_combine_i8",
    [WEIR_TOOL_COMBINE + WEIR_U16] = "call_combine_u16",
    [WEIR_TOOL_COMBINE + WEIR_I16] = "call_combine_i16",
    [WEIR_TOOL_COMBINE + WEIR_I32] = "call_combine_i32",
    [WEIR_TOOL_COMBINE + WEIR_I64] = "call_combine_i64",
    [WEIR_TOOL_COMBINE + WEIR_F16] = "call_combine_f16",
    [WEIR_TOOL_COMBINE + WEIR_F64] = "call_combine_f64",
    [WEIR_TOOL_COMBINE + WEIR_U32] = "call_combine_u32",
    [WEIR_TOOL_COMBINE + WEIR_U64] = "call_combine_u64",
    [WEIR_TOOL_COMBINE + WEIR_BF16] = "call_combine_bf16",
};
enum { TOOL_THREADS = 256 };

#define TOOL(name) (UINT64_C(1) << WEIR_TOOL_##name)
#define SORTS (TOOL(SORT) | TOOL(MERGE) | TOOL(SELECT) | TOOL(COUNT) | TOOL(DIGIT))
#define SUMS (TOOL(SUM_PARTS) | TOOL(SUM_ALL) | TOOL(SUM))
#define UPDATES (SORTS | TOOL(PLACES))

#define DEVICE_CALL(name, ...)                                                                     \
    { #name, "weir_device_" #name, __VA_ARGS__ }

/* A call and the kernels that it launches. */
static const struct DeviceCall {
    const char *name, *function;
    uint64_t tools;
    bool small, complex; /* elements of less than a byte, complex ones, are fine */
} device_calls[] = {
    DEVICE_CALL(lookup, TOOL(LOOKUP), true, false),
    DEVICE_CALL(nms, SORTS | SUMS | TOOL(NMS_KEYS) | TOOL(NMS) | TOOL(NMS_ROWS), false, false),
    DEVICE_CALL(nonzero, TOOL(SUM_ALL) | TOOL(NONZERO_COUNT) | TOOL(NONZERO), true, true),
    DEVICE_CALL(scatter_elements, UPDATES, false, false),
    DEVICE_CALL(scatter_nd, UPDATES, false, false),
    DEVICE_CALL(topk, SORTS | TOOL(TOPK), false, false),
    DEVICE_CALL(trees, TOOL(TREES), false, false),
    DEVICE_CALL(unique,
                SORTS | SUMS | TOOL(HEADS) | TOOL(GROUPS) | TOOL(FIRSTS) | TOOL(UNIQUE) |
                    TOOL(UNIQUE_VALUES),
                false, true),
    DEVICE_CALL(value, 0, true, false),
};

static const struct DeviceCall *device_call(const Flow *flow, const Call *call) {
    const struct DeviceCall *d = device_calls, *end = d + sizeof device_calls / sizeof *d;
    while (d < end && strcmp(d->name, call->row->name) != 0) d++;
    if (d == end) return NULL;
    for (int i = 0; i < call->nin; i++) {
        if (call->in[i] < 0) continue;
        DType t = flow->cont.at[call->in[i]].type;
        if (dtype_class(t) == CLASS_OBJECT || (dtype_class(t) == CLASS_COMPLEX && !d->complex) ||
            (dtype_bits(t) < 8 && !d->small))
            return NULL;
    }
    return d;
}

const char *target_cuda_call(const Flow *flow, const Call *call) {
    const struct DeviceCall *d = device_call(flow, call);
    return d ? d->function : NULL;
}

/* What a scatter does at its places: its last attribute says how it combines, 0 not. */
static uint64_t update_tool(const Flow *flow, const Call *call) {
    int type = dtype_onnx(flow->cont.at[call->out[0]].type);
    if (call->attr[call->nattr - 1] == 0) return TOOL(REPLACE);
    if (type == WEIR_BOOL) type = WEIR_U8;
    return type <= WEIR_BF16 ? TOOL(COMBINE) << type : 0;
}

static uint64_t tools_of(const Flow *flow, const Items *items) {
    uint64_t all = 0;
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        const struct DeviceCall *d = it->kind == ITEM_CALL ? device_call(flow, it->call) : NULL;
        all |= (d ? d->tools : 0) | tools_of(flow, &it->body) | tools_of(flow, &it->other);
        if (d && d->tools == UPDATES) all |= update_tool(flow, it->call);
    }
    return all;
}

void cuda_tool_rows(const CProgram *p, Text *kernels, Text *numbers) {
    uint64_t all = tools_of(p->flow, &p->flow->body);
    int n = cuda_launched(p);
    for (int i = 0; i < WEIR_TOOLS; i++) {
        text_printf(numbers, "%d, ", all >> i & 1 ? n++ : -1);
        if (all >> i & 1)
            text_printf(kernels, " {\"%s\", \"a call\", %d, 0},\n", tools[i], TOOL_THREADS);
    }
}

int cuda_tool_count(const CProgram *p) {
    return __builtin_popcountll(tools_of(p->flow, &p->flow->body));
}

void cuda_tool_names(const CProgram *p, Text *out) {
    uint64_t all = tools_of(p->flow, &p->flow->body);
    for (int i = 0; i < WEIR_TOOLS; i++)
        if (all >> i & 1) text_printf(out, " %s", tools[i]);
}
