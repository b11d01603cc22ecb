/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds checks (`--checked`). In a kernel a line in front of every access to memory compares what
 * it is about to touch, the lanes that are on, with the elements that are there; one that strays
 * ends the kernel untouched and leaves its name and place in the task. Before kernels and calls
 * the program asks whether the containers at hand lie inside the arena, the weights or the heap.
 * Reads with a value outside of the box test it themselves. */
#include "c_program.h"

/* ---- in a kernel ----------------------------------------------------------------------------- */

static const char *access_text(CNest *c, const char *verb, const Access *a) {
    Text out = {.arena = c->arena};
    text_printf(&out, "%s \"%s\"[", verb, c->nest->buf.at[a->cont].name);
    for (int k = 0; k < a->rank; k++)
        text_printf(&out, "%s%s", k ? ", " : "", dim_str(c->ctx, a->at[k]));
    text_put(&out, "]");
    return c_string(c->arena, text_str(&out));
}

/* While a loop runs whose end defines the size, as many as there may be. */
static const char *elements(CNest *c, const Buf *b) {
    Dim n = dim_product(c->ctx, b->box, b->rank);
    const char *text = emit_dim_str(&c->names, b->base ? dim_add(c->ctx, b->base, n) : n);
    for (int i = 0; i < c->nest->symbol.n; i++) {
        const Symbol *s = &c->nest->symbol.at[i];
        long long none = INT64_MAX;
        if (s->upper && !symbol_bounded(s) && dim_uses(n, s->sym))
            text = str(c, "(%s == %lld ? %lld : %s)", emit_dim_str(&c->names, s->sym), none, none,
                       text);
    }
    return text;
}

/* Elements of a local array with the vector behind its end. */
static const char *array_room(CNest *c, const Buf *b) {
    Dim bits = dim_mulc(c->ctx, array_bytes(c, b), 8);
    return emit_dim_str(&c->names, dim_div(c->ctx, bits, dim_const(c->ctx, dtype_bits(b->type))));
}

void check_span(CNest *c, const char *verb, const Access *a, const char *first, const char *count) {
    if (!c->form->checked) return;
    put_line(c, "if (strays(task, %s, %s, %s, %s)) return;", access_text(c, verb, a), first, count,
             elements(c, &c->nest->buf.at[a->cont]));
}

void check_lanes(CNest *c, const char *verb, const Access *a, const char *place) {
    if (!c->form->checked) return;
    const char *on = c->lane.kind == MASK_NONE     ? "1"
                     : c->lane.kind == MASK_PREFIX ? str(c, "l < %s", c->lane.count)
                                                   : str(c, "%s[l] != 0", lane_mask(c));
    put_line(c, "for (i32 l = 0; l < %d; l++) if (strays(task, %s, %s, %s, %s)) return;",
             c->lane.width, access_text(c, verb, a), place, on,
             elements(c, &c->nest->buf.at[a->cont]));
}

void check_row(CNest *c, const char *verb, const Access *a, const char *first, bool whole) {
    const Buf *b = &c->nest->buf.at[a->cont];
    if (!c->form->checked) return;
    if (c->lane.kind == MASK_LANES)
        check_lanes(c, verb, a, str(c, "%s + l", first));
    else
        check_span(c, verb, a, first,
                   c->lane.kind == MASK_PREFIX ? c->lane.count : str(c, "%d", c->lane.width));
    if (whole && c->lane.kind != MASK_NONE)
        put_line(c, "if (strays(task, %s, %s, %d, %s)) return;", access_text(c, verb, a), first,
                 c->lane.width, array_room(c, b));
}

void check_step(CNest *c, const char *verb, const Access *a, Dim first, int64_t step) {
    int64_t last = step * (c->lane.width - 1);
    Dim low = last < 0 ? dim_addc(c->ctx, first, last) : first;
    const char *n = str(c, "%lld", (long long)(last < 0 ? 1 - last : 1 + last));
    if (c->lane.kind == MASK_PREFIX)
        n = str(c, "%s ? %lld * (%s - 1) + 1 : 0", c->lane.count, (long long)step, c->lane.count);
    check_span(c, verb, a, emit_dim_str(&c->names, low), n);
}

void check_filled(CNest *c, const Buf *b, const char *n) {
    if (!c->form->checked) return;
    const char *text = str(c, "fills \"%s\"", b->name);
    put_line(c, "if (strays(task, %s, 0, %s, %s)) return;", c_string(c->arena, text), n,
             array_room(c, b));
}

/* ---- around kernels -------------------------------------------------------------------------- */

/* The container whose memory it is. */
static int owner_of(const CProgram *p, int cont) {
    for (int i = 0; i < p->flow->alias.n; i++)
        if (p->flow->alias.at[i].cont == cont && !p->flow->alias.at[i].when)
            return owner_of(p, p->flow->alias.at[i].of);
    return cont;
}

/* Memory of the caller was compared with its dims when the run began, tables in the text are as
 * long as they are. */
static bool is_ours(const CProgram *p, int cont) {
    const Cont *c = &p->flow->cont.at[owner_of(p, cont)];
    bool stored = p->options->weight_offset && p->options->weight_offset[owner_of(p, cont)] >= 0;
    if (c->kind == CONT_IN) return false;
    if (c->kind == CONT_OUT) return p->heap[cont] >= 0;
    return c->kind != CONT_LITERAL || stored;
}

static void put_inside(CProgram *p, Text *out, const char *what, const char *name, const char *at,
                       Dim bytes) {
    text_printf(out, " && weir_rt_inside(f, %s, %s, %s, %s)", c_string(p->arena, what),
                c_string(p->arena, name), at, dim_text(p, bytes));
}

const char *check_containers(CProgram *p, const char *what, const int *cont, int n) {
    Text out = {.arena = p->arena};
    for (int i = 0; p->host->form->checked && i < n; i++)
        if (cont[i] >= 0 && is_ours(p, cont[i]))
            put_inside(p, &out, what, p->flow->cont.at[cont[i]].name, address(p, cont[i]),
                       cont_bytes(p, &p->flow->cont.at[cont[i]]));
    return text_str(&out);
}

const char *check_kernel(CProgram *p, int kernel) {
    const CKernel *k = p->kernel[kernel];
    const Nest *nest = p->program->nest.at[kernel];
    Text out = {.arena = p->arena};
    if (!p->host->form->checked) return "";
    for (int i = 0; i < k->buf.n; i++)
        text_put(&out,
                 check_containers(p, kernel_from(p, kernel), &nest->buf.at[k->buf.at[i]].cont, 1));
    if (!dim_is(k->scratch, 0))
        put_inside(p, &out, kernel_from(p, kernel), "scratch", "scratch", k->scratch);
    return text_str(&out);
}

void check_task(CProgram *p, int kernel) {
    if (!p->host->form->checked) return;
    program_line(p, "  if (task.stray) weir_rt_stray(f, %s, task.stray, task.index, task.size);",
                 c_string(p->arena, kernel_from(p, kernel)));
}
