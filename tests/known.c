/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/known.h"

#include <string.h>

/* The size of entries that hold of all sizes. */
enum { ANY = -1 };

const char *known_text(Ctx *ctx, const Stage *stage) {
    Stage part = {.flow = stage->flow ? stage->flow->prepare : NULL,
                  .program = stage->program ? stage->program->prepare : NULL};
    Arena *arena = arena_new(ctx);
    const char *text = stage_text(arena, stage);
    if (part.flow || part.program)
        text = arena_printf(arena, "%s\n%s", text, known_text(ctx, &part));
    text = intern(ctx, text);
    arena_free(arena);
    return text;
}

/* An entry, a new one where there is none; until the next call. */
static Known *find(KnownList *list, const Stage *stage, int64_t size) {
    const char *text = known_text(arena_ctx(list->arena), stage);
    for (int i = 0; i < list->n; i++)
        if (list->at[i].text == text && list->at[i].size == size) return &list->at[i];
    vec_push(list->arena, list, ((Known){.text = text, .size = size}));
    return &list->at[list->n - 1];
}

void known_verify(KnownList *list, const Stage *stage) {
    Known *known = find(list, stage, ANY);
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

void known_print(KnownList *list, const Stage *stage, const char *after) {
    Ctx *ctx = arena_ctx(list->arena);
    Known *known = find(list, stage, ANY);
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

const Tensor *known_outputs(KnownList *list, const Stage *stage, int64_t size, const Tensor *in,
                            int nout) {
    Known *known = find(list, stage, size);
    if (known->out) return known->out;
    Arena *arena = arena_new(arena_ctx(list->arena));
    Tensor *out = NEW_ARRAY(list->arena, Tensor, nout + 1);
    if (stage->flow)
        flow_eval(arena, stage->flow, in, out, 1);
    else
        program_eval(arena, stage->program, in, out);
    for (int i = 0; i < nout; i++)
        out[i].data = arena_copy(list->arena, out[i].data,
                                 (size_t)dtype_bytes(out[i].type, tensor_count(&out[i])) + 1);
    arena_free(arena);
    return known->out = out;
}
