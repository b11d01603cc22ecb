/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/known.h"

#include <string.h>

static const char *whole_text(Ctx *ctx, const Stage *stage) {
    Stage part = {.flow = stage->flow ? stage->flow->prepare : NULL,
                  .program = stage->program ? stage->program->prepare : NULL};
    Arena *arena = arena_new(ctx);
    const char *text = stage_text(arena, stage);
    if (part.flow || part.program)
        text = arena_printf(arena, "%s\n%s", text, whole_text(ctx, &part));
    text = intern(ctx, text);
    arena_free(arena);
    return text;
}

Known *known_stage(KnownList *list, const Stage *stage) {
    const char *text = whole_text(arena_ctx(list->arena), stage);
    for (int i = 0; i < list->of.n; i++)
        if (list->of.at[i]->text == text) return list->of.at[i];
    Known *known = NEW(list->arena, Known);
    known->text = text;
    vec_push(list->arena, &list->of, known);
    return known;
}

void known_forget_outputs(KnownList *list) {
    for (int i = 0; i < list->of.n; i++) list->of.at[i]->out = NULL;
}

void known_verify(Known *known, const Stage *stage) {
    if (!known->verified) stage_verify(stage);
    known->verified = true;
}

void texts_equal(Ctx *ctx, const char *what, const char *a, const char *b) {
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    if (!a[n] && !b[n]) return;
    while (n && a[n - 1] != '\n') n--;
    fail(ctx, E_VERIFY, "%s differs:\n%.*s\n%.*s", what, (int)strcspn(a + n, "\n"), a + n,
         (int)strcspn(b + n, "\n"), b + n);
}

void known_print(Known *known, Ctx *ctx, const Stage *stage, const char *after) {
    if (known->printed) return;
    Arena *arena = arena_new(ctx);
    Text again = {.arena = arena};
    const char *text = stage_text(arena, stage);
    ir_file_print(&again, ir_file_parse(arena, onnx_ops(), text));
    texts_equal(ctx, arena_printf(arena, "%s: the text printed twice", after), text,
                text_str(&again));
    known->printed = true;
    arena_free(arena);
}

const Tensor *known_outputs(Known *known, Arena *arena, const Stage *stage, const Tensor *in,
                            int nout) {
    if (known->out) return known->out;
    Arena *own = arena_new(arena_ctx(arena));
    Tensor *out = NEW_ARRAY(arena, Tensor, nout + 1);
    if (stage->flow)
        flow_eval(own, stage->flow, in, out, 1);
    else
        program_eval(own, stage->program, in, out);
    for (int i = 0; i < nout; i++)
        out[i].data = arena_copy(arena, out[i].data,
                                 (size_t)dtype_bytes(out[i].type, tensor_count(&out[i])) + 1);
    arena_free(own);
    return known->out = out;
}
