/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests' libraries share: the driver that they stand on, and handles, of which nothing may
 * be left. Each library is one file, so all of this is its own. */
#ifndef WEIR_FAKE_LIBRARY_H
#define WEIR_FAKE_LIBRARY_H

#include <dlfcn.h>
#include <stdlib.h>

#include "fake.h"

static __typeof__(fake_breach) *breach;
static __typeof__(fake_within) *within;
static __typeof__(fake_context) *in_context;
static __typeof__(fake_put) *put;
static int handles, objects;

/* An object begins with what kind it is, by the library's own numbers. */
static void *object_new(int kind, size_t bytes) {
    int *o = calloc(1, bytes);
    *o = kind;
    objects++;
    return o;
}

static void object_free(void *object, int kind) {
    if (*(int *)object != kind) breach("a handle of another kind is freed");
    objects--;
    free(object);
}

/* A handle of the library; false where no driver is there. `call` makes it, for messages. */
static bool handle_new(void **library, const char *call) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) return false;
    breach = (__typeof__(breach))dlsym(driver, "fake_breach");
    within = (__typeof__(within))dlsym(driver, "fake_within");
    in_context = (__typeof__(in_context))dlsym(driver, "fake_context");
    put = (__typeof__(put))dlsym(driver, "fake_put");
    dlclose(driver);
    if (!in_context()) breach("%s without a context", call);
    handles++;
    *library = &handles;
    return true;
}

static void handle_free(const void *library) {
    if (library != &handles || !handles--) breach("a handle is destroyed that is none");
}

/* When the library goes. */
static void expect_nothing_left(const char *library) {
    if (handles || objects) breach("left of %s: %d handles, %d others", library, handles, objects);
}

#endif
