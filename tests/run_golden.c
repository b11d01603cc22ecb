/* SPDX-License-Identifier: Apache-2.0 */
/* Golden files: every .ir file of the folders given as arguments is
 *
 * - parsed, printed, parsed and printed again: the two texts are equal (and a copy prints the
 * same);
 * - verified;
 * - evaluated on deterministic data, each flow, for each of its `# dims: N=5 S=7` lines (symbols
 * that no line names are near their least value); where the file has a nest for every kernel of its
 * last flow, the nests must give what the flow gives.
 *
 * A file may expect an error instead: `# fails: TEXT` holds a part of the message.
 *
 * With --torn each file is instead parsed and verified once per token with that token left out, and
 * once with it doubled: whatever comes out, it must be an answer or an error. What passes prints
 * and reads back. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/calls.h"
#include "frontends/onnx/onnx.h"
#include "ir/file.h"
#include "ir/lex.h"

typedef struct Golden {
    const char *path;
    char *text;
    const char *dims; /* the `# dims:` line in use, or NULL */
    char message[1 << 16];
    Ctx *ctx;
} Golden;

static char *read_whole(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = calloc((size_t)n + 1, 1);
    size_t got = fread(text, 1, (size_t)n, f);
    fclose(f);
    return got == (size_t)n ? text : NULL;
}

static void collect(void *user, const Diag *diag) {
    Golden *g = user;
    snprintf(g->message, sizeof g->message, "%s line %d: %s", diag->id, diag->where.line,
             diag->message);
}

/* ---- text -------------------------------------------------------------------------------- */

static const char *print_file(Arena *arena, const IrFile *file) {
    Text out = {.arena = arena};
    ir_file_print(&out, file);
    return text_str(&out);
}

/* The same file with graphs and flows replaced by their copies. */
static const char *print_copies(Arena *arena, const IrFile *file) {
    IrFile copy = *file;
    copy.graph.at = arena_copy(arena, file->graph.at, sizeof(Graph *) * (size_t)file->graph.n);
    copy.flow.at = arena_copy(arena, file->flow.at, sizeof(Flow *) * (size_t)file->flow.n);
    for (int i = 0; i < copy.graph.n; i++) copy.graph.at[i] = graph_clone(arena, copy.graph.at[i]);
    for (int i = 0; i < copy.flow.n; i++) copy.flow.at[i] = flow_clone(arena, copy.flow.at[i]);
    return print_file(arena, &copy);
}

static void same_text(Ctx *ctx, const char *what, const char *a, const char *b) {
    size_t n = 0, line = 1;
    if (!strcmp(a, b)) return;
    for (; a[n] && a[n] == b[n]; n++) line += a[n] == '\n';
    while (n && a[n - 1] != '\n') n--;
    fail(ctx, E_VERIFY, "%s differs at line %zu:\n%.*s\n%.*s", what, line,
         (int)strcspn(a + n, "\n"), a + n, (int)strcspn(b + n, "\n"), b + n);
}

/* ---- evaluation -------------------------------------------------------------------------- */

typedef struct Dims {
    const Flow *flow;
    const char *line;
} Dims;

/* NAME=value in the line, else three above the least value. */
static bool dim_value(void *user, Dim sym, int64_t *value) {
    const Dims *dims = user;
    const char *name = dim_sym_name(sym);
    size_t n = strlen(name);
    for (const char *p = dims->line; p && *p && *p != '\n'; p++)
        if ((p == dims->line || p[-1] == ' ') && !strncmp(p, name, n) && p[n] == '=') {
            *value = strtoll(p + n + 1, NULL, 10);
            return true;
        }
    for (int i = 0; i < dims->flow->symbol.n; i++) {
        const Symbol *s = &dims->flow->symbol.at[i];
        if (s->sym != sym) continue;
        *value = s->lo + 3 <= s->hi ? s->lo + 3 : s->hi;
        return true;
    }
    return false;
}

static Tensor *inputs(Arena *arena, const Flow *flow, const char *line) {
    Dims dims = {flow, line};
    Tensor *in = NEW_ARRAY(arena, Tensor, flow->cont.n);
    for (int c = 0, n = 0; c < flow->cont.n; c++) {
        const Cont *cont = &flow->cont.at[c];
        if (cont->kind != CONT_IN) continue;
        Tensor *t = &in[n++];
        t->type = cont->type;
        t->rank = cont->rank;
        for (int k = 0; k < cont->rank; k++)
            if (!dim_eval(cont->shape[k], dim_value, &dims, &t->dim[k]))
                fail(flow->ctx, E_VERIFY, "no size for input \"%s\"", cont->name);
        t->data = arena_alloc(arena, (size_t)dtype_bytes(t->type, tensor_count(t)) + 64);
        cont_random(cont, t, (uint64_t)n);
    }
    return in;
}

static bool agree(DType t, Bits a, Bits b) {
    if (a == b) return true;
    if (!dtype_is_float(t)) return false;
    double x = bits_to_double(t, a), y = bits_to_double(t, b);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    double scale = fabs(x) > 1 ? fabs(x) : 1;
    return fabs(x - y) <= scale * (dtype_bits(t) < 32 ? 2e-2 : 1e-5);
}

static void same_tensors(const Flow *flow, const Tensor *a, const Tensor *b) {
    for (int c = 0, n = 0; c < flow->cont.n; c++) {
        const Cont *cont = &flow->cont.at[c];
        if (cont->kind != CONT_OUT) continue;
        for (int64_t i = 0; i < tensor_count(&a[n]); i++) {
            Bits x = mem_get(cont->type, a[n].data, i), y = mem_get(cont->type, b[n].data, i);
            if (!agree(cont->type, x, y))
                fail(flow->ctx, E_VERIFY,
                     "element %lld of \"%s\" is %.9g by the flow and %.9g by the nests",
                     (long long)i, cont->name, bits_to_double(cont->type, x),
                     bits_to_double(cont->type, y));
        }
        n++;
    }
}

static void evaluate(Arena *arena, IrFile *file, const char *line) {
    Program *program = ir_file_program(arena, file);
    for (int i = 0; i < file->flow.n; i++) {
        const Flow *flow = file->flow.at[i];
        Tensor *in = inputs(arena, flow, line);
        Tensor *out = NEW_ARRAY(arena, Tensor, flow->cont.n),
               *by = NEW_ARRAY(arena, Tensor, flow->cont.n);
        flow_eval(arena, flow, in, out, 1);
        if (!program || program->flow != flow) continue;
        program_eval(arena, program, in, by);
        same_tensors(flow, out, by);
    }
}

/* ---- files ------------------------------------------------------------------------------- */

static void check(void *user) {
    Golden *g = user;
    Arena *arena = arena_new(g->ctx);
    IrFile *file = ir_file_parse(arena, onnx_ops(), g->text);
    const char *once = print_file(arena, file);
    same_text(g->ctx, "the text printed twice", once,
              print_file(arena, ir_file_parse(arena, onnx_ops(), once)));
    same_text(g->ctx, "the text of a copy", once, print_copies(arena, file));
    ir_file_verify(file);
    bool any = false;
    for (const char *p = g->text; (p = strstr(p, "# dims:")); p++, any = true)
        evaluate(arena, file, p + 7);
    if (!any) evaluate(arena, file, NULL);
    arena_free(arena);
}

static bool run(const char *path) {
    Golden *g = calloc(1, sizeof *g);
    g->path = path;
    g->text = read_whole(path);
    g->ctx = ctx_new(collect, g);
    if (!g->text || !g->ctx) {
        printf("FAIL %s: cannot be read\n", path);
        return false;
    }
    g->ctx->runtime = &calls_runtime;
    bool ok = ctx_try(g->ctx, check, g);
    const char *fails = strstr(g->text, "# fails: ");
    if (fails) {
        char expected[256];
        snprintf(expected, sizeof expected, "%.*s", (int)strcspn(fails + 9, "\n"), fails + 9);
        ok = !ok && strstr(g->message, expected);
        if (!ok) printf("FAIL %s: expected an error with \"%s\"\n%s\n", path, expected, g->message);
    } else if (!ok) {
        printf("FAIL %s: %s\n", path, g->message);
    }
    ctx_free(g->ctx);
    free(g->text);
    free(g);
    return ok;
}

/* ---- torn texts --------------------------------------------------------------------------------
 */

static void check_torn(void *user) {
    Golden *g = user;
    Arena *arena = arena_new(g->ctx);
    IrFile *file = ir_file_parse(arena, onnx_ops(), g->text);
    ir_file_verify(file);
    const char *once = print_file(arena, file);
    IrFile *again = ir_file_parse(arena, onnx_ops(), once);
    same_text(g->ctx, "the text printed twice", once, print_file(arena, again));
    arena_free(arena);
}

/* The text with n bytes at `at` left out or doubled. */
static char *tear(const char *text, size_t at, size_t n, bool twice) {
    size_t all = strlen(text);
    char *torn = calloc(all + n + 2, 1);
    memcpy(torn, text, at);
    if (twice) snprintf(torn + at, n + 3, "%.*s ", (int)n, text + at);
    strcat(torn, text + at + (twice ? 0 : n));
    return torn;
}

static bool run_torn(const char *path) {
    Golden *g = calloc(1, sizeof *g);
    char *text = read_whole(path);
    Ctx *ctx = ctx_new(NULL, NULL);
    Arena *arena = arena_new(ctx);
    Lex lex;
    bool ok = true;
    int tried = 0, passed = 0;
    for (lex_init(&lex, arena, text); lex.t.kind != TOK_END; lex_next(&lex))
        for (int twice = 0; twice < 2; twice++, tried++) {
            g->text = tear(text, (size_t)(lex.t.at - text), lex.t.n, twice);
            g->ctx = ctx_new(collect, g);
            bool good = ctx_try(g->ctx, check_torn, g);
            passed += good;
            if (!good && strstr(g->message, "printed twice")) {
                printf("FAIL %s: byte %d: %s\n", path, (int)(lex.t.at - text), g->message);
                ok = false;
            }
            ctx_free(g->ctx);
            free(g->text);
        }
    printf("%s: %d torn texts, %d of them still sound\n", path, tried, passed);
    ctx_free(ctx);
    free(text);
    free(g);
    return ok;
}

static int ends_in_ir(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return n > 3 && !strcmp(entry->d_name + n - 3, ".ir");
}

int main(int argc, char **argv) {
    int bad = 0, all = 0, first = 1;
    bool (*check_one)(const char *path) = run;
    if (argc > 1 && !strcmp(argv[1], "--torn")) check_one = run_torn, first++;
    for (int a = first; a < argc; a++) {
        struct dirent **entry;
        int n = scandir(argv[a], &entry, ends_in_ir, alphasort);
        if (n < 0) {
            bad += !check_one(argv[a]);
            all++;
            continue;
        }
        for (int i = 0; i < n; i++, all++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[a], entry[i]->d_name);
            bad += !check_one(path);
            free(entry[i]);
        }
        free(entry);
    }
    printf("%d of %d golden files are good\n", all - bad, all);
    return bad || !all;
}
