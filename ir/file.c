/* SPDX-License-Identifier: Apache-2.0 */
/* Files of IR text. */
#include "file.h"

#include "flow_parse.h"
#include "graph_text.h"
#include "nest_text.h"

IrFile *ir_file_parse(Arena *arena, const OpTable *ops, const char *text) {
    Lex lex;
    Where where = arena_ctx(arena)->where;
    IrFile *file = NEW(arena, IrFile);
    lex_init(&lex, arena, text);
    while (lex.t.kind != TOK_END) {
        if (lex_is(&lex, "graph"))
            vec_push(arena, &file->graph, graph_scan(&lex, ops, NULL));
        else if (lex_is(&lex, "flow"))
            vec_push(arena, &file->flow, flow_scan(&lex));
        else if (lex_is(&lex, "nest"))
            vec_push(arena, &file->nest, nest_scan(&lex));
        else
            lex_fail(&lex, "expected a graph, a flow or a nest");
    }
    arena_ctx(arena)->where = where;
    return file;
}

void ir_file_print(Text *out, const IrFile *file) {
    for (int i = 0; i < file->graph.n; i++) {
        if (i) text_put(out, "\n");
        graph_print(out, file->graph.at[i]);
    }
    for (int i = 0; i < file->flow.n; i++) {
        if (i || file->graph.n) text_put(out, "\n");
        flow_print(out, file->flow.at[i]);
    }
    for (int i = 0; i < file->nest.n; i++) {
        if (i || file->flow.n || file->graph.n) text_put(out, "\n");
        nest_print(out, file->nest.at[i]);
    }
}

void ir_file_verify(const IrFile *file) {
    for (int i = 0; i < file->graph.n; i++) graph_verify(file->graph.at[i]);
    for (int i = 0; i < file->flow.n; i++) flow_verify(file->flow.at[i]);
    for (int i = 0; i < file->nest.n; i++) nest_verify(file->nest.at[i]);
}

/* The nest of kernel k: of variants with one name, each has the nest at its place among them. */
static Nest *nest_of(const IrFile *file, const Flow *flow, int k) {
    const char *name = flow->kernel.at[k]->name;
    int skip = 0;
    for (int i = 0; i < k; i++) skip += flow->kernel.at[i]->name == name;
    for (int i = 0; i < file->nest.n; i++)
        if (file->nest.at[i]->name == name && skip-- == 0) return file->nest.at[i];
    return NULL;
}

static void link_buffers(const Flow *flow, Nest *nest) {
    for (int i = 0; i < nest->buf.n; i++) {
        Buf *buf = &nest->buf.at[i];
        if (buf->kind != BUF_MEMORY) continue;
        buf->cont = -1;
        for (int c = 0; c < flow->cont.n; c++)
            if (flow->cont.at[c].name == buf->name) buf->cont = c;
        if (buf->cont < 0)
            fail(flow->ctx, E_VERIFY,
                 "nest \"%s\" uses memory \"%s\", which flow \"%s\" does not have", nest->name,
                 buf->name, flow->name);
    }
}

Program *ir_file_program(Arena *arena, IrFile *file) {
    if (!file->flow.n) return NULL;
    const Flow *flow = file->flow.at[file->flow.n - 1];
    Program *program = NEW(arena, Program);
    program->arena = arena;
    program->flow = flow;
    for (int k = 0; k < flow->kernel.n; k++) {
        Nest *nest = nest_of(file, flow, k);
        if (!nest) return NULL;
        link_buffers(flow, nest);
        vec_push(arena, &program->nest, nest);
    }
    return flow->kernel.n ? program : NULL;
}
