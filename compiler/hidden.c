/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that can be swapped are hidden from the passes: a value that nobody can see is one that
 * nothing was derived from. Those are the model's floating-point parameters of more than one
 * element, but for the few whose values decide shapes (the scales of a resize); integers (sizes,
 * axes, indices) and scalars are part of the program. */
#include <string.h>

#include "driver.h"

void hidden_take(Graph *g) {
    for (int i = 0; i < g->value.n; i++) {
        Value *v = &g->value.at[i];
        v->hidden = v->kind == VALUE_PARAM && v->data && v->type.dtype != STRING &&
                    !type_is_integral(v->type.dtype) && type_count(&v->type) > 1;
    }
    for (int i = 0; i < g->node.n; i++)
        for (int k = 0; k < g->node.at[i].attr.n; k++)
            if (g->node.at[i].attr.at[k].graph) hidden_take(g->node.at[i].attr.at[k].graph);
}

bool *hidden_give(Driver *d, const Program *program) {
    const Flow *part = program->prepare ? program->prepare->flow : NULL;
    if (!part) return NULL;
    bool *swapped = NEW_ARRAY(d->arena, bool, part->cont.n + 1);
    for (int i = 0; i < part->cont.n; i++) {
        Cont *c = &part->cont.at[i];
        if (c->kind != CONT_PARAM || c->data) continue;
        swapped[i] = d->options->packing == PACK_SWAP;
        c->data = c->unseen;
    }
    return swapped;
}

const int *hidden_inputs(Arena *arena, const Flow *part, const bool *swapped, int *n) {
    int *input = NEW_ARRAY(arena, int, part->cont.n + 1);
    *n = 0;
    for (int i = 0, k = 0; i < part->cont.n; i++) {
        if (part->cont.at[i].kind != CONT_IN) continue;
        if (swapped[i]) input[(*n)++] = k;
        k++;
    }
    return input;
}
