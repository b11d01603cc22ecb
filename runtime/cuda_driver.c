/* SPDX-License-Identifier: Apache-2.0 */
/* The NVIDIA driver's library, opened when an instance is created: a compiled model names it
 * nowhere, so it loads, and says what is missing, on a machine without one. */
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char *cuda_text(const CudaDriver *cu, int error) {
    const char *text = NULL;
    if (cu->error_text) cu->error_text(error, &text);
    return text ? text : "unknown error of the driver";
}

static const char *find_all(CudaDriver *cu) {
    void *at;
#define CALL(member, symbol, parameters)                                                           \
    if (!(at = dlsym(cu->library, #symbol))) return #symbol;                                       \
    memcpy(&cu->member, &at, sizeof at);
    CUDA_CALLS
#undef CALL
    return NULL;
}

weir_status cuda_open(CudaDriver *cu, char why[256]) {
    memset(cu, 0, sizeof *cu);
    cu->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cu->library) {
        const char *reason = dlerror();
        snprintf(why, 256,
                 "no NVIDIA driver: libcuda.so.1 cannot be opened (%.120s); this model was "
                 "compiled for a GPU, compile it with --target=c to run it here",
                 reason ? reason : "no reason given");
        return WEIR_E_DEVICE;
    }
    const char *missing = find_all(cu);
    int error = missing ? 0 : cu->init(0);
    if (!missing && !error) return WEIR_OK;
    if (missing)
        snprintf(why, 256, "the NVIDIA driver is too old: libcuda.so.1 has no \"%s\"", missing);
    else
        snprintf(why, 256, "the NVIDIA driver cannot be used: %.200s", cuda_text(cu, error));
    cuda_close(cu);
    return WEIR_E_DEVICE;
}

void cuda_close(CudaDriver *cu) {
    if (cu->library) dlclose(cu->library);
    memset(cu, 0, sizeof *cu);
}
