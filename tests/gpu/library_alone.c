/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime around one of its libraries, for library_numbers.c and convolution_numbers.c: what is
 * not there does nothing, and nothing here fails. */
#include "runtime/cuda_library.c"

weir_status weir_instance_fail(weir_instance *in, weir_status status, const char *fmt, ...) {
    (void)in, (void)fmt;
    return status;
}
void weir_rt_fail(weir_frame *f, int32_t status, const char *reason) {
    (void)f, (void)status, (void)reason;
}
void cuda_note(weir_frame *f, int error, const char *what, const char *of) {
    (void)f, (void)error, (void)what, (void)of;
}
weir_status cuda_check(weir_instance *in, int error, const char *what) {
    (void)in, (void)what;
    return error ? WEIR_E_DEVICE : WEIR_OK;
}

#define OTHER(name)                                                                                \
    __attribute__((weak)) weir_status cuda_##name##_open(weir_instance *in, CudaShared *s) {       \
        (void)in, (void)s;                                                                         \
        return WEIR_OK;                                                                            \
    }                                                                                              \
    __attribute__((weak)) void cuda_##name##_close(CudaShared *s) {                                \
        (void)s;                                                                                   \
    }                                                                                              \
    __attribute__((weak)) int64_t cuda_##name##_bytes(const CudaShared *s) {                       \
        (void)s;                                                                                   \
        return 0;                                                                                  \
    }
OTHER(products)
OTHER(convolutions)
