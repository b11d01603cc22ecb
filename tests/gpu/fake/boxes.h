/* SPDX-License-Identifier: Apache-2.0 */
/* Part of cuda.c: tensors described for the engine that copies boxes of them. What the real driver
 * asks of them is asked here. */
#include "tensor.h"

static bool is_box(const shim_tensor *t, unsigned i, unsigned box, unsigned step) {
    if (t->size[i] < 1 || t->size[i] > 1ull << 32 || box < 1 || box > 256 || step != 1)
        return false;
    if (i == 0) return box * t->bytes % 16 == 0 && box * t->bytes <= 128;
    unsigned long long apart = t->stride[i - 1],
                       before = i == 1 ? t->size[0] * t->bytes : t->stride[i - 2];
    return apart % 16 == 0 && apart < 1ull << 40 && apart >= before &&
           (i == 1 || apart % before == 0);
}

/* Of the API's many kinds those that are used: dense tiles, rows of up to 128 bytes swizzled, zeros
 * outside. */
int cuTensorMapEncodeTiled(void *out, int type, unsigned rank, void *at,
                           const unsigned long long *size, const unsigned long long *stride,
                           const unsigned *box, const unsigned *step, int interleave, int swizzle,
                           int promotion, int fill) {
    enum { KINDS = 12, ROUNDED = 11 };
    static const unsigned short bytes[KINDS] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4};
    shim_tensor t = {.mark = SHIM_TENSOR, .at = at, .rank = (unsigned short)rank};
    unsigned long long last;
    if ((uintptr_t)out % 64 || type < 0 || type >= KINDS || rank < 1 || rank > 5 ||
        (uintptr_t)at % 16)
        return INVALID;
    if (interleave != 0 || swizzle != 3 || promotion < 0 || promotion > 3 || fill) return INVALID;
    t.bytes = bytes[type];
    t.rounds = type == ROUNDED;
    last = t.bytes;
    for (unsigned i = 0; i < rank; i++) {
        t.size[i] = size[i];
        t.box[i] = box[i];
        if (i) t.stride[i - 1] = stride[i - 1];
        if (!is_box(&t, i, box[i], step[i])) return INVALID;
        last += (size[i] - 1) * (i ? stride[i - 1] : t.bytes);
    }
    fake_within((uint64_t)(uintptr_t)at, last, "a tensor");
    memset(out, 0, 128);
    memcpy(out, &t, sizeof t);
    return OK;
}
