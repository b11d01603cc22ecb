/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver of the tests makes of a tensor's description, for itself and the device code: in
 * the room of a CUtensorMap. */
#ifndef WEIR_TESTS_TENSOR_H
#define WEIR_TESTS_TENSOR_H

#define SHIM_TENSOR 0x726f736e65742d66ull

typedef struct shim_tensor {
    unsigned long long mark; /* SHIM_TENSOR: an argument of a launch that begins so is one */
    const char *at;
    unsigned long long size[5], stride[4]; /* stride: bytes, from the second dim on */
    unsigned box[5];
    unsigned short bytes, rank; /* of an element */
    bool rounds;                /* f32, to TF32 */
} shim_tensor;

#endif
