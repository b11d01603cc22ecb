/* SPDX-License-Identifier: Apache-2.0 */
/* Files with tensors: the first byte says of which form, the others are the file. What is read must
 * hold as many elements as its dims say. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/victim.h"
#include "tools/weir/pb.h"

static const char *const objects[] = {"seq(f32[N])",      "seq(string[N])",
                                      "optional(f32[N])", "optional(seq(f32[N]))",
                                      "map(i64, f32[N])", "seq(map(string, f32[N]))"};
enum { OBJECTS = sizeof objects / sizeof *objects, FORMS = 2 + OBJECTS };

/* The reader takes names. */
static bool read_npy(HostTensor *h, const uint8_t *bytes, size_t n, char *error) {
    char path[64];
    int fd = memfd_create("fuzz.npy", 0);
    if (fd < 0) return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool good = write(fd, bytes, n) == (ssize_t)n && npy_read(h, path, error);
    close(fd);
    return good;
}

static double sum(const weir_tensor *t) {
    double total = 0;
    if (t->dtype == WEIR_C64 || t->dtype == WEIR_C128) return 0;
    for (int64_t i = 0; i < host_count(t); i++) total += host_get(t, i);
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static volatile double kept;
    char error[256] = "";
    HostTensor h = {0};
    if (!n) return 0;
    int form = bytes[0] % FORMS;
    bool good = form == 0   ? read_npy(&h, bytes + 1, n - 1, error)
                : form == 1 ? pb_tensor(&h, bytes + 1, n - 1, error)
                            : pb_value(&h, bytes + 1, n - 1, objects[form - 2], error);
    if (good && !host_is_object(h.t.dtype)) kept = sum(&h.t);
    if (good) host_free(&h);
    return 0;
}
