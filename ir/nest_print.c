/* SPDX-License-Identifier: Apache-2.0 */
/* Nests as text. A read that is used once stands where it is used; a body of one store without
 * other lines is `x[i] = expr`. */
#include "nest_text.h"

#include "flow_text.h"
#include "lex.h"

#include <string.h>

const char *const buf_words[] = {"mem", "reg", "tile", "shared", "scratch", "fragment", NULL};
const char *const mark_words[] = {"for", "parallel", "unroll", "vector", "block", "thread", NULL};

static const char *buf_name(void *user, int number) {
    const Nest *nest = user;
    return number < 0 || number >= nest->buf.n ? "?" : nest->buf.at[number].name;
}

static BodyText body_text(Printer *p, const Nest *nest, const Body *body) {
    return (BodyText){
        .p = p, .arena = p->out->arena, .body = body, .cont = buf_name, .user = (void *)nest};
}

static void print_access(Printer *p, const Nest *nest, const Access *access) {
    BodyText t = body_text(p, nest, NULL);
    body_text_access(&t, access);
}

static void print_buf(Text *out, const Buf *buf) {
    text_printf(out, "%s ", buf_words[buf->kind]);
    text_name(out, buf->name);
    text_printf(out, " : %s[", dtype_name(buf->type));
    print_dims(out, buf->box, buf->rank);
    text_put(out, buf->swizzled ? "] swizzled" : "]");
}

static void print_decl(Printer *p, const Nest *nest, const Stmt *stmt) {
    const Buf *buf = &nest->buf.at[stmt->buf];
    print_see(p, buf);
    print_buf(p->out, buf);
    if (!stmt->has_init) return;
    text_put(p->out, " = ");
    bits_print(p->out, buf->type, stmt->init);
}

/* ---- bodies ------------------------------------------------------------------------------ */

static void print_store(BodyText *t, const Nest *nest, const Store *store, bool sugar) {
    DType type = nest->buf.at[store->to.cont].type;
    print_see(t->p, store);
    if (sugar) {
        body_text_access(t, &store->to);
        text_put(t->p->out, " = ");
        body_text_value(t, store->val, type);
        return;
    }
    body_text_value(t, store->val, type);
    text_put(t->p->out, " -> ");
    body_text_access(t, &store->to);
}

static void print_body(Printer *p, const Nest *nest, const Stmt *stmt) {
    BodyText t = body_text(p, nest, &stmt->code);
    int *roots = NEW_ARRAY(t.arena, int, stmt->store.n);
    if (stmt->async) text_put(p->out, "async ");
    for (int i = 0; i < stmt->store.n; i++) roots[i] = stmt->store.at[i].val;
    body_text_plan(&t, roots, stmt->store.n, NULL, 0);
    int lines = 0;
    for (int i = 0; i < stmt->code.val.n; i++) lines += t.name[i] != NULL;
    if (stmt->store.n == 1 && !lines) {
        print_store(&t, nest, &stmt->store.at[0], true);
        return;
    }
    text_put(p->out, "body {");
    print_end(p);
    p->indent++;
    body_text_lines(&t);
    for (int i = 0; i < stmt->store.n; i++) {
        print_line(p);
        print_store(&t, nest, &stmt->store.at[i], false);
        print_end(p);
    }
    p->indent--;
    print_line(p);
    text_put(p->out, "}");
}

/* ---- statements -------------------------------------------------------------------------- */

static void print_accesses(Printer *p, const Nest *nest, const Access *access, int n) {
    if (n > 1) text_put(p->out, "(");
    for (int i = 0; i < n; i++) {
        if (i) text_put(p->out, ", ");
        print_access(p, nest, &access[i]);
    }
    if (n > 1) text_put(p->out, ")");
}

static void print_fold(Printer *p, const Nest *nest, const Stmt *stmt) {
    text_put(p->out, stmt->threads ? "fold thread " : "fold ");
    text_combine(p->out, stmt->combine);
    text_printf(p->out, " %d ", stmt->lanes);
    print_accesses(p, nest, stmt->src, stmt->combine->nstate);
    text_put(p->out, " -> ");
    print_accesses(p, nest, stmt->dst, stmt->combine->nstate);
}

static void print_for(Printer *p, const Stmt *stmt) {
    bool suffix = stmt->mark == LOOP_UNROLL || stmt->mark == LOOP_VECTOR;
    text_printf(p->out, "%s ", suffix ? "for" : mark_words[stmt->mark]);
    text_name(p->out, dim_sym_name(stmt->var));
    text_put(p->out, " : ");
    dim_print(p->out, stmt->extent);
    if (suffix) text_printf(p->out, " %s", mark_words[stmt->mark]);
    if (stmt->guard.n) text_put(p->out, " if ");
    print_guards(p->out, stmt->guard.at, stmt->guard.n);
}

static void print_stmts(Printer *p, const Nest *nest, const Stmts *stmts);

static void print_block(Printer *p, const Nest *nest, const Stmt *stmt) {
    print_from(p->out, stmt->from);
    text_put(p->out, " {");
    print_end(p);
    p->indent++;
    print_stmts(p, nest, &stmt->body);
    p->indent--;
    print_line(p);
    text_put(p->out, "}");
}

static void print_head(Printer *p, const Nest *nest, const Stmt *stmt) {
    switch (stmt->kind) {
    case STMT_FOR: print_for(p, stmt); break;
    case STMT_IF:
        text_put(p->out, "if ");
        print_guards(p->out, stmt->guard.at, stmt->guard.n);
        break;
    case STMT_WHILE:
        text_put(p->out, "while ");
        print_access(p, nest, &stmt->at);
        break;
    case STMT_DECL: print_decl(p, nest, stmt); break;
    case STMT_BODY: print_body(p, nest, stmt); break;
    case STMT_FOLD: print_fold(p, nest, stmt); break;
    case STMT_PREFETCH:
        text_put(p->out, "prefetch ");
        print_access(p, nest, &stmt->at);
        break;
    case STMT_SYNC: text_put(p->out, "sync"); break;
    case STMT_COMMIT: text_put(p->out, "commit"); break;
    case STMT_WAIT:
        text_printf(p->out, stmt->steps ? "wait steps %d" : "wait %d", stmt->left);
        break;
    case STMT_STEPS: text_put(p->out, "steps"); break;
    case STMT_TURN:
        text_put(p->out, "turn ");
        text_name(p->out, dim_sym_name(stmt->var));
        text_printf(p->out, " : %d ", stmt->lanes);
        print_access(p, nest, stmt->src);
        text_put(p->out, " -> ");
        print_access(p, nest, stmt->dst);
        break;
    case STMT_USE:
        text_put(p->out, "use ");
        text_name(p->out, stmt->use);
        break;
    }
}

static void print_stmts(Printer *p, const Nest *nest, const Stmts *stmts) {
    for (int i = 0; i < stmts->n; i++) {
        const Stmt *stmt = stmts->at[i];
        bool block = stmt->kind == STMT_FOR || stmt->kind == STMT_IF || stmt->kind == STMT_WHILE ||
                     stmt->kind == STMT_USE || stmt->kind == STMT_STEPS;
        print_line(p);
        print_see(p, stmt);
        print_head(p, nest, stmt);
        if (block)
            print_block(p, nest, stmt);
        else
            print_from(p->out, stmt->from);
        print_end(p);
    }
}

void nest_print_marked(Printer *p, const Nest *nest) {
    print_line(p);
    print_see(p, nest);
    text_put(p->out, "nest ");
    text_name(p->out, nest->name);
    text_put(p->out, " on ");
    text_name(p->out, nest->on);
    if (nest->serial) text_put(p->out, " serial ");
    if (nest->serial) text_quoted(p->out, nest->serial, strlen(nest->serial));
    if (nest->alternates) text_put(p->out, " alternates ");
    if (nest->alternates) text_name(p->out, dim_sym_name(nest->alternates));
    print_symbols(p->out, nest->symbol.at, nest->symbol.n);
    print_from(p->out, nest->from);
    text_put(p->out, " {");
    print_end(p);
    p->indent++;
    for (int i = 0; i < nest->buf.n; i++) {
        const Buf *buf = &nest->buf.at[i];
        if (buf->kind != BUF_MEMORY) continue;
        print_line(p);
        print_see(p, buf);
        print_buf(p->out, buf);
        if (buf->written) text_put(p->out, " written");
        if (buf->base && !dim_is(buf->base, 0)) text_put(p->out, " base ");
        if (buf->base && !dim_is(buf->base, 0)) dim_print(p->out, buf->base);
        print_end(p);
    }
    print_stmts(p, nest, &nest->body);
    p->indent--;
    print_line(p);
    text_put(p->out, "}");
    print_end(p);
}

void nest_print(Text *out, const Nest *nest) {
    Printer p = {.out = out};
    nest_print_marked(&p, nest);
}

const char *nest_stmt_str(Arena *arena, const Nest *nest, const Stmt *stmt) {
    Text out = {.arena = arena};
    Printer p = {.out = &out};
    print_head(&p, nest, stmt);
    return text_str(&out);
}
