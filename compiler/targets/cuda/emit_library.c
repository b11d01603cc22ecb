/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that were given to a library: their calls in the walk, and a row for each that says what
 * is multiplied (runtime/cuda_library.c makes the calls). */
#include "cuda.h"

#include "passes/library.h"
#include "runtime/device.h"

#include <string.h>

/* Bytes on a multiple of which containers begin: ports on the device (runtime/cuda_run.c) at least.
 */
enum { CONT_ALIGN = 16 };

bool cuda_apart(const Kernel *kernel) {
    return kernel_library(kernel);
}

static LibraryProduct product_of(const CProgram *p, int kernel) {
    const Kernel *k = p->flow->kernel.at[kernel];
    LibraryProduct product;
    if (strcmp(kernel_library(k), "cublaslt"))
        fail(p->ctx, E_UNSUPPORTED, "kernel \"%s\" goes to an unknown library \"%s\"", k->name,
             kernel_library(k));
    if (!library_product(p->flow, k, &product))
        fail(p->ctx, E_UNSUPPORTED,
             "kernel \"%s\" is no product of matrices of known sizes, as \"%s\" makes them",
             k->name, kernel_library(k));
    return product;
}

static int64_t element_bytes(const CProgram *p, const LibraryMatrix *m) {
    return dtype_bits(p->flow->cont.at[m->cont].type) / 8;
}

static const char *matrix_address(CProgram *p, const LibraryMatrix *m) {
    if (m->cont < 0) return "0";
    const char *at = address(p, m->cont);
    if (!m->first) return at;
    return arena_printf(p->arena, "%s + %lld", at, (long long)(m->first * element_bytes(p, m)));
}

/* Calls of the program before this kernel's. */
static int products_before(const CProgram *p, int kernel) {
    int n = 0;
    for (int k = 0; k < kernel; k++) n += cuda_apart(p->flow->kernel.at[k]);
    return n;
}

void cuda_product(CProgram *p, int kernel) {
    LibraryProduct m = product_of(p, kernel);
    program_line(p, "{");
    open_span(p);
    program_line(p, "  weir_device_multiply(f, %d, %s, %s, %s, %s, %s);",
                 products_before(p, kernel), matrix_address(p, &m.a), matrix_address(p, &m.b),
                 matrix_address(p, &m.c), matrix_address(p, &m.bias), matrix_address(p, &m.d));
    if (p->options->profile) program_line(p, "  weir_device_settle(f);");
    close_span(p, kernel);
    program_line(p, "}");
}

/* The same of an element: less inside of a container, or of one in another's memory. */
static int64_t align_of(const CProgram *p, int cont, int64_t first) {
    int64_t bytes = dtype_bits(p->flow->cont.at[cont].type) / 8, align = CONT_ALIGN, offset;
    for (int i = 0; i < p->flow->alias.n; i++) {
        const Alias *a = &p->flow->alias.at[i];
        if (a->cont != cont || a->when) continue;
        if (!dim_is_const(a->offset, &offset)) return bytes;
        align = align_of(p, a->of, 0);
        first += offset;
    }
    while (first * bytes % align) align /= 2;
    return align;
}

static void put_matrix(const CProgram *p, Text *out, const char *name, const LibraryMatrix *m) {
    if (m->cont < 0) return;
    text_printf(out, "\n  .%s = {%lld, %lld, %d, %d},", name, (long long)m->apart,
                (long long)m->step, m->across, (int)align_of(p, m->cont, m->first));
}

int cuda_product_rows(const CProgram *p, Text *out) {
    int n = products_before(p, p->flow->kernel.n);
    text_put(out, "static const weir_device_product device_products[] = {\n");
    for (int k = 0; k < p->flow->kernel.n && n; k++) {
        if (!cuda_apart(p->flow->kernel.at[k])) continue;
        LibraryProduct m = product_of(p, k);
        text_printf(out, " {.from = %s, .factor = %d, .result = %d, .rounded = %d,",
                    c_string(p->arena, kernel_from(p, k)), dtype_onnx(m.factor),
                    dtype_onnx(p->flow->cont.at[m.d.cont].type), m.round == P_TF32);
        text_printf(out, "\n  .rows = %lld, .columns = %lld, .depth = %lld, .batch = %lld,",
                    (long long)m.rows, (long long)m.columns, (long long)m.depth,
                    (long long)m.batch);
        put_matrix(p, out, "a", &m.a);
        put_matrix(p, out, "b", &m.b);
        put_matrix(p, out, "c", &m.c);
        put_matrix(p, out, "bias", &m.bias);
        put_matrix(p, out, "d", &m.d);
        text_put(out, "},\n");
    }
    text_put(out, " {0}\n};\n");
    return n;
}
