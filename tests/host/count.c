/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc family, counted: an executable's symbols come before libc's, so that every library
 * that is opened later calls these. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *at, size_t n);
void *__libc_memalign(size_t align, size_t n);

static int64_t counted;

int64_t allocations(void) {
    return __atomic_load_n(&counted, __ATOMIC_SEQ_CST);
}

static void count(void) {
    __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t n) {
    count();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size) {
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *at, size_t n) {
    count();
    return __libc_realloc(at, n);
}

void *memalign(size_t align, size_t n) {
    count();
    return __libc_memalign(align, n);
}

void *aligned_alloc(size_t align, size_t n) {
    count();
    return __libc_memalign(align, n);
}

int posix_memalign(void **at, size_t align, size_t n) {
    count();
    void *got = __libc_memalign(align, n);
    if (!got) return ENOMEM;
    *at = got;
    return 0;
}

/* The models' objects know it by either name. */
void *plain_mmap(void *at, size_t n, int protection, int flags, int fd,
                 off_t offset) __asm__("mmap");
void *large_mmap(void *at, size_t n, int protection, int flags, int fd,
                 off_t offset) __asm__("mmap64");

void *plain_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    count();
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

void *large_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    return plain_mmap(at, n, protection, flags, fd, offset);
}
