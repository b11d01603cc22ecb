/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that were given to a library: their calls in the walk, and a row for each that says what
 * is multiplied or filtered (runtime/cuda_library.c makes the calls). */
#include "cuda.h"
#include "machine.h"

#include "passes/library.h"
#include "runtime/device.h"

#include <string.h>

bool cuda_apart(const Kernel *kernel) {
    return kernel_library(kernel);
}

/* ---- which work -------------------------------------------------------------------------------
 */

static LibraryKind kind_of(const CProgram *p, int kernel) {
    const Kernel *k = p->flow->kernel.at[kernel];
    LibraryKind kind;
    if (!target_cuda_library(kernel_library(k), &kind))
        fail(p->ctx, E_UNSUPPORTED, "kernel \"%s\" goes to an unknown library \"%s\"", k->name,
             kernel_library(k));
    return kind;
}

static LibraryWork work_of(const CProgram *p, int kernel) {
    static const char *const words[] = {"product of matrices", "convolution"};
    const Kernel *k = p->flow->kernel.at[kernel];
    LibraryKind kind = kind_of(p, kernel);
    LibraryWork work;
    if (!library_work(p->flow, k, &work) || work.kind != kind)
        fail(p->ctx, E_UNSUPPORTED, "kernel \"%s\" is no %s of known sizes, as \"%s\" makes them",
             k->name, words[kind], kernel_library(k));
    return work;
}

/* Calls of a kind before this kernel's. */
static int calls_before(const CProgram *p, LibraryKind kind, int kernel) {
    int n = 0;
    for (int k = 0; k < kernel; k++)
        n += cuda_apart(p->flow->kernel.at[k]) && kind_of(p, k) == kind;
    return n;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static const char *element_address(CProgram *p, int cont, int64_t first) {
    if (cont < 0) return "0";
    const char *at = address(p, cont);
    int64_t bytes = dtype_bits(p->flow->cont.at[cont].type) / 8;
    return first ? arena_printf(p->arena, "%s + %lld", at, (long long)(first * bytes)) : at;
}

static const char *matrix_address(CProgram *p, const LibraryMatrix *m) {
    return element_address(p, m->cont, m->first);
}

static void put_multiply(CProgram *p, int number, const LibraryProduct *m) {
    program_line(p, "  weir_device_multiply(f, %d, %s, %s, %s, %s, %s);", number,
                 matrix_address(p, &m->a), matrix_address(p, &m->b), matrix_address(p, &m->c),
                 matrix_address(p, &m->bias), matrix_address(p, &m->d));
}

static void put_convolve(CProgram *p, int number, const LibraryConvolution *c) {
    program_line(p, "  weir_device_convolve(f, %d, %s, %s, %s, %s, %s);", number,
                 element_address(p, c->x.cont, c->x.first),
                 element_address(p, c->w.cont, c->w.first),
                 element_address(p, c->bias.cont, c->bias.first),
                 element_address(p, c->residual.cont, c->residual.first),
                 element_address(p, c->y.cont, c->y.first));
}

void cuda_library_call(CProgram *p, int kernel) {
    LibraryWork work = work_of(p, kernel);
    int number = calls_before(p, work.kind, kernel);
    program_line(p, "{");
    open_span(p);
    if (work.kind == LIBRARY_PRODUCT)
        put_multiply(p, number, &work.product);
    else
        put_convolve(p, number, &work.convolution);
    if (p->options->profile) program_line(p, "  weir_device_settle(f);");
    close_span(p, kernel);
    program_line(p, "}");
}

/* ---- rows -------------------------------------------------------------------------------------
 */

static void put_matrix(const CProgram *p, Text *out, const char *name, const LibraryMatrix *m) {
    if (m->cont < 0) return;
    text_printf(out, "\n  .%s = {%lld, %lld, %d, %d},", name, (long long)m->apart,
                (long long)m->step, m->across, library_align(p->flow, m->cont, m->first));
}

static void put_product(const CProgram *p, Text *out, const LibraryWork *work) {
    const LibraryProduct *m = &work->product;
    text_printf(out, " .factor = %d, .result = %d, .rounded = %d,", dtype_onnx(work->factor.type),
                dtype_onnx(p->flow->cont.at[m->d.cont].type), work->factor.round == P_TF32);
    text_printf(out, "\n  .rows = %lld, .columns = %lld, .depth = %lld, .batch = %lld,",
                (long long)m->rows, (long long)m->columns, (long long)m->depth,
                (long long)m->batch);
    put_matrix(p, out, "a", &m->a);
    put_matrix(p, out, "b", &m->b);
    put_matrix(p, out, "c", &m->c);
    put_matrix(p, out, "bias", &m->bias);
    put_matrix(p, out, "d", &m->d);
}

static void put_images(Text *out, const char *name, const LibraryImages *m) {
    text_printf(out, "\n  .%s = {{", name);
    for (int i = 0; i < IMAGE_DIMS; i++) text_printf(out, "%lld, ", (long long)m->size[i]);
    text_put(out, "}, {");
    for (int i = 0; i < IMAGE_DIMS; i++) text_printf(out, "%lld, ", (long long)m->step[i]);
    text_put(out, "}},");
}

static void put_convolution(Text *out, const LibraryWork *work) {
    const LibraryConvolution *c = &work->convolution;
    const LibraryWindow *h = &c->window[0], *w = &c->window[1];
    text_printf(out, " .type = %d, .rounded = %d,", dtype_onnx(work->factor.type),
                work->factor.round == P_TF32);
    text_printf(out, "\n  .groups = %lld, .channels_last = %d,", (long long)c->groups,
                c->channels_last);
    text_printf(out, " .biased = %d, .added = %d, .relu = %d,", c->bias.cont >= 0,
                c->residual.cont >= 0, c->relu);
    text_printf(out, "\n  .taps = {%lld, %lld}, .stride = {%lld, %lld},", (long long)h->taps,
                (long long)w->taps, (long long)h->stride, (long long)w->stride);
    text_printf(out, "\n  .dilation = {%lld, %lld}, .padding = {%lld, %lld},",
                (long long)h->dilation, (long long)w->dilation, (long long)h->padding,
                (long long)w->padding);
    put_images(out, "x", &c->x);
    put_images(out, "y", &c->y);
}

static void put_rows(const CProgram *p, Text *out, LibraryKind kind) {
    for (int k = 0; k < p->flow->kernel.n; k++) {
        if (!cuda_apart(p->flow->kernel.at[k]) || kind_of(p, k) != kind) continue;
        LibraryWork work = work_of(p, k);
        text_printf(out, " {.from = %s,", c_string(p->arena, kernel_from(p, k)));
        if (kind == LIBRARY_PRODUCT)
            put_product(p, out, &work);
        else
            put_convolution(out, &work);
        text_put(out, "},\n");
    }
    text_put(out, " {0}\n};\n");
}

void cuda_library_rows(const CProgram *p, Text *out) {
    text_put(out, "static const weir_device_product device_products[] = {\n");
    put_rows(p, out, LIBRARY_PRODUCT);
    text_put(out, "static const weir_device_convolution device_convolutions[] = {\n");
    put_rows(p, out, LIBRARY_CONVOLUTION);
}

const char *cuda_library_members(const CProgram *p) {
    int n = p->flow->kernel.n;
    return arena_printf(p->arena,
                        " .nproducts = %d, .product = device_products,\n .nconvolutions = %d, "
                        ".convolution = device_convolutions,\n",
                        calls_before(p, LIBRARY_PRODUCT, n),
                        calls_before(p, LIBRARY_CONVOLUTION, n));
}
