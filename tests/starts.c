/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/eval.h"
#include "tests/starts.h"

/* Is it made by the constant part that the text brings? */
static bool is_prepared(const Flow *flow, const Cont *c) {
    for (int i = 0; flow->prepare && i < flow->prepare->cont.n; i++)
        if (flow->prepare->cont.at[i].kind == CONT_OUT && flow->prepare->cont.at[i].name == c->name)
            return true;
    return false;
}

Flow *flow_with_weights(Arena *arena, const Flow *flow) {
    Flow *f = flow_clone(arena, flow);
    for (int c = 0; c < f->cont.n; c++) {
        Cont *cont = &f->cont.at[c];
        bool sized = cont->kind == CONT_PARAM && !cont->data && !is_prepared(f, cont);
        Tensor t = {.type = cont->type, .rank = cont->rank};
        for (int k = 0; sized && k < cont->rank; k++)
            sized = dim_is_const(cont->shape[k], &t.dim[k]);
        if (!sized) continue;
        cont->data_bytes = dtype_bytes(cont->type, tensor_count(&t));
        t.data = arena_alloc(arena, (size_t)cont->data_bytes + 64);
        cont_random(cont, &t, 1);
        cont->data = t.data;
    }
    return f;
}

Flow *flow_bare(Arena *arena, const Flow *flow) {
    Flow *f = flow_clone(arena, flow);
    f->kernel.n = f->alias.n = 0;
    for (int c = 0; c < f->cont.n; c++) f->cont.at[c].place = PLACE_NONE;
    return f;
}
