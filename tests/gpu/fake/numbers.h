/* SPDX-License-Identifier: Apache-2.0 */
/* Elements in a device's memory, for the tests' libraries. */
#ifndef WEIR_FAKE_NUMBERS_H
#define WEIR_FAKE_NUMBERS_H

#include <stdint.h>
#include <string.h>

typedef enum { FAKE_F32, FAKE_F16, FAKE_BF16 } FakeNumber;

static inline float fake_load(FakeNumber type, const char *at, int64_t i) {
    uint16_t half;
    float value;
    if (type == FAKE_F32) {
        memcpy(&value, at + 4 * i, sizeof value);
        return value;
    }
    memcpy(&half, at + 2 * i, sizeof half);
    if (type == FAKE_F16) {
        _Float16 h;
        memcpy(&h, &half, sizeof h);
        return (float)h;
    }
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void fake_store(FakeNumber type, char *at, int64_t i, float value) {
    if (type == FAKE_F32) {
        memcpy(at + 4 * i, &value, sizeof value);
    } else if (type == FAKE_F16) {
        _Float16 h = (_Float16)value;
        memcpy(at + 2 * i, &h, sizeof h);
    } else {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint16_t half = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        memcpy(at + 2 * i, &half, sizeof half);
    }
}

/* To ten bits of fraction. */
static inline float fake_rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
