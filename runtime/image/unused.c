/* SPDX-License-Identifier: Apache-2.0 */
/* What the static libraries refer to in functions that are never called, or expect of the
 * compiler's own library. They were compiled for executables: libc's variables cannot be reached
 * from them in a shared library, so that they get others of these names. Not part of the compiler
 * itself. */
#include <stdint.h>

void *const stdout, *const stderr;
int __popcountdi2(uint64_t v);

int __popcountdi2(uint64_t v) {
    int n = 0;
    for (; v; v &= v - 1) n++;
    return n;
}
