/* SPDX-License-Identifier: Apache-2.0 */
/* Finding cases and running one, by the rules of the ONNX backend test runner: inputs in the order
 * of the model's, floats within rtol and atol, everything else equal. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/onnx/onnx.h"
#include "tools/weir/cases.h"

enum { REASON = 1000, PATH = 4096 };

const char case_by_property[] = "by property";

/* ---- finding -------------------------------------------------------------------------------- */

static char *format2(const char *fmt, const char *a, const char *b) {
    size_t n = strlen(a) + strlen(b) + strlen(fmt) + 1;
    char *s = host_alloc(n, 1);
    snprintf(s, n, fmt, a, b);
    return s;
}

static void add_case(Cases *cases, char *model, const char *name, bool light) {
    if (cases->n == cases->cap)
        cases->at = host_more(cases->at, (size_t)(cases->cap = cases->cap ? 2 * cases->cap : 256),
                              sizeof *cases->at);
    cases->at[cases->n++] = (Case){.model = model, .name = host_text(name), .light = light};
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int visible(const struct dirent *d) {
    return d->d_name[0] != '.';
}

/* NAME.onnx is a light case when its first output lies beside it. */
static void add_light(Cases *cases, const char *dir, const char *file) {
    char name[256], output[PATH];
    snprintf(name, sizeof name, "%.*s", (int)strlen(file) - 5, file);
    snprintf(output, sizeof output, "%s/%s_output_0.pb", dir, name);
    if (access(output, R_OK) == 0) add_case(cases, format2("%s/%s", dir, file), name, true);
}

static void find(Cases *cases, const char *dir, int depth) {
    char *model = format2("%s/%s", dir, "model.onnx");
    if (access(model, R_OK) == 0) {
        const char *base = strrchr(dir, '/');
        add_case(cases, model, base ? base + 1 : dir, false);
        return;
    }
    free(model);
    struct dirent **entry;
    int n = depth > 8 ? -1 : scandir(dir, &entry, visible, alphasort);
    for (int i = 0; i < n; i++) {
        char *path = format2("%s/%s", dir, entry[i]->d_name);
        if (is_folder(path))
            find(cases, path, depth + 1);
        else if (path_ends(path, ".onnx"))
            add_light(cases, dir, entry[i]->d_name);
        free(path);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
}

void cases_find(Cases *cases, const char *path) {
    char dir[PATH];
    snprintf(dir, sizeof dir, "%s", path);
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') dir[--n] = '\0';
    char *slash = strrchr(dir, '/');
    if (is_folder(dir)) {
        find(cases, dir, 0);
    } else if (path_ends(dir, ".onnx") && slash) {
        *slash = '\0';
        if (strcmp(slash + 1, "model.onnx"))
            add_light(cases, dir, slash + 1);
        else
            find(cases, dir, 0);
    }
}

/* ---- running -------------------------------------------------------------------------------- */

typedef struct Runner {
    const CaseOptions *o;
    const Case *one;
    Engine e;
    FormedModel formed;
    bool unsupported, by_property;
    Distance distance;
    char first[REASON]; /* first error diagnostic */
    char *reason;
} Runner;

static void note_diagnostic(void *user, const weir_diagnostic *d) {
    Runner *r = user;
    if (d->severity || r->first[0]) return;
    snprintf(r->first, sizeof r->first, "%s", d->text);
    r->unsupported = d->id && !strcmp(d->id, "W012");
}

static CaseState failed(Runner *r, const char *what) {
    snprintf(r->reason, REASON, "%s%.980s", what, r->first);
    return r->unsupported ? CASE_UNSUPPORTED : CASE_FAIL;
}

/* Sets from before bfloat16 had a type of its own in numpy keep its bits as uint16. */
static void mend_type(HostTensor *t, int32_t dtype) {
    if (t->t.dtype == WEIR_U16 && dtype == WEIR_BF16) t->t.dtype = WEIR_BF16;
}

/* Reads PREFIX_0.pb, PREFIX_1.pb, ... as tensors of the ports, without those that `left_out` (may
 * be NULL) marks; the number read, -1 after a failure. */
static int read_set(Runner *r, const char *prefix, const unsigned char *left_out,
                    const weir_port *port, HostTensor *t, int n) {
    char path[PATH], error[256];
    for (int i = 0, number = 0; i < n; i++, number++) {
        while (left_out && left_out[number]) number++;
        snprintf(path, sizeof path, "%s_%d.pb", prefix, number);
        if (access(path, R_OK)) return i;
        if (!pb_read(&t[i], path, port[i].object, error)) {
            snprintf(r->reason, REASON, "%s", error);
            return -1;
        }
        mend_type(&t[i], port[i].dtype);
    }
    return n;
}

/* 0, 1/n, 2/n, ...; symbolic dims are 1. */
static bool count_up(Runner *r, HostTensor *t) {
    for (int i = 0; i < r->e.ninputs; i++) {
        const weir_port *p = &r->e.inputs[i];
        t[i].t = (weir_tensor){.dtype = p->dtype, .rank = p->rank};
        for (int k = 0; k < p->rank; k++) {
            char *end;
            long long v = strtoll(p->dims[k], &end, 10);
            t[i].t.dims[k] = *end ? 1 : v;
        }
        int64_t n = host_count(&t[i].t);
        t[i].t.data = host_alloc((size_t)host_bytes(&t[i].t) + 8, 1);
        for (int64_t k = 0; p->dtype == WEIR_F32 && k < n; k++)
            ((float *)t[i].t.data)[k] = (float)((double)k / (double)n);
        if (p->dtype == WEIR_F32) continue;
        snprintf(r->reason, REASON, "input \"%s\" is no float; give it in a data set", p->name);
        return false;
    }
    return true;
}

typedef struct Set {
    HostTensor *in, *out, *want;
    int nin, nwant;
} Set;

/* Does the model draw random numbers? Then its results need not be those of the case. */
static bool graph_draws(const Graph *g) {
    for (int i = 0; i < g->node.n; i++) {
        const Node *node = &g->node.at[i];
        if (node->row->flags & OP_RANDOM) return true;
        for (int k = 0; k < node->attr.n; k++)
            if (node->attr.at[k].kind == ATTR_GRAPH && graph_draws(node->attr.at[k].graph))
                return true;
    }
    return false;
}

typedef struct Draws {
    Ctx *ctx;
    const char *model;
    bool yes;
} Draws;

static void find_draws(void *arg) {
    Draws *d = arg;
    d->yes = graph_draws(onnx_import_file(arena_new(d->ctx), d->model, NULL));
}

static bool model_draws(const char *model) {
    Draws d = {.ctx = ctx_new(NULL, NULL), .model = model};
    if (d.ctx) ctx_try(d.ctx, find_draws, &d);
    if (d.ctx) ctx_free(d.ctx);
    return d.yes;
}

typedef struct Moments {
    double mean, variance;
    int64_t n;
    bool finite;
} Moments;

static Moments moments_of(const weir_tensor *t) {
    Moments m = {.n = host_count(t), .finite = true};
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < m.n; i++) {
        double v = host_get(t, i);
        m.finite = m.finite && isfinite(v);
        sum += v, squares += v * v;
    }
    m.mean = m.n ? sum / (double)m.n : 0;
    m.variance = m.n ? squares / (double)m.n - m.mean * m.mean : 0;
    return m;
}

/* The property of what is drawn: the same type and shape, nothing infinite, and the mean that is
 * expected within five standard errors of the difference of two samples. */
static bool same_distribution(const weir_tensor *got, const weir_tensor *want) {
    bool same = got->dtype == want->dtype && got->rank == want->rank && !host_is_object(got->dtype);
    for (int i = 0; same && i < got->rank; i++) same = got->dims[i] == want->dims[i];
    if (!same || dtype_class(dtype_from_host(got->dtype)) == CLASS_COMPLEX) return false;
    Moments g = moments_of(got), w = moments_of(want);
    double error = sqrt((fmax(g.variance, 0) + fmax(w.variance, 0)) / (double)(g.n ? g.n : 1));
    return g.finite && fabs(g.mean - w.mean) <= 5 * error;
}

static bool compare_set(Runner *r, const Set *s) {
    for (int i = 0; i < s->nwant; i++) {
        Difference d = host_compare(&s->out[i].t, &s->want[i].t, &r->o->within);
        if (!d.same && model_draws(r->one->model) &&
            same_distribution(&s->out[i].t, &s->want[i].t)) {
            r->by_property = true;
            continue;
        }
        distance_worsen(&r->distance, d.distance);
        if (d.same) continue;
        snprintf(r->reason, REASON, "output %d \"%s\": %s", i, r->e.outputs[i].name, d.text);
        return false;
    }
    return true;
}

static CaseState run_loaded(Runner *r, Set *s) {
    char why[512] = "";
    if (s->nin < r->e.ninputs) {
        snprintf(r->reason, REASON, "the set has %d inputs, the model %d", s->nin, r->e.ninputs);
        return CASE_FAIL;
    }
    if (!engine_run(&r->e, s->in, s->out, why)) {
        if (!r->first[0]) snprintf(r->first, sizeof r->first, "%s", why);
        return failed(r, "run: ");
    }
    return compare_set(r, s) ? CASE_PASS : CASE_FAIL;
}

/* `in` NULL: count up. */
static CaseState run_set(Runner *r, const char *in, const char *want) {
    Engine *e = &r->e;
    Set s = {.nin = e->ninputs};
    s.in = host_alloc((size_t)e->ninputs, sizeof *s.in);
    s.out = host_alloc((size_t)e->noutputs, sizeof *s.out);
    s.want = host_alloc((size_t)e->noutputs, sizeof *s.want);
    CaseState state = CASE_FAIL;
    if (in)
        s.nin = read_set(r, in, r->formed.fixed, e->inputs, s.in, e->ninputs);
    else if (!count_up(r, s.in))
        s.nin = -1;
    s.nwant = read_set(r, want, NULL, e->outputs, s.want, e->noutputs);
    if (s.nin >= 0 && s.nwant >= 0) state = run_loaded(r, &s);
    tensors_free(s.in, e->ninputs);
    tensors_free(s.out, e->noutputs);
    tensors_free(s.want, e->noutputs);
    free(s.in);
    free(s.out);
    free(s.want);
    return state;
}

static int is_set(const struct dirent *d) {
    return strncmp(d->d_name, "test_data_set", 13) == 0;
}

static CaseState run_sets(Runner *r) {
    char dir[PATH], in[PATH + 300], want[PATH + 300];
    snprintf(dir, sizeof dir, "%s", r->one->model);
    if (r->one->light) {
        dir[strlen(dir) - 5] = '\0';
        snprintf(want, sizeof want, "%s_output", dir);
        return run_set(r, NULL, want);
    }
    *strrchr(dir, '/') = '\0';
    struct dirent **set;
    int n = scandir(dir, &set, is_set, alphasort);
    CaseState state = CASE_PASS;
    int sets = r->o->form == FORM_CONSTANT && n > 1 ? 1 : n;
    for (int i = 0; i < n; i++) {
        snprintf(in, sizeof in, "%s/%s/input", dir, set[i]->d_name);
        snprintf(want, sizeof want, "%s/%s/output", dir, set[i]->d_name);
        if (state == CASE_PASS && i < sets) state = run_set(r, in, want);
        free(set[i]);
    }
    if (n >= 0) free(set);
    if (n > 0) return state;
    snprintf(r->reason, REASON, "the case has no test_data_set");
    return CASE_FAIL;
}

/* The file to open: the case's model, or another form of it. NULL after a failure. */
static const char *model_of(Runner *r) {
    char set[PATH], error[256];
    if (r->o->form == FORM_GIVEN) return r->one->model;
    snprintf(set, sizeof set, "%s", r->one->model);
    *strrchr(set, '/') = '\0';
    strncat(set, "/test_data_set_0", sizeof set - strlen(set) - 1);
    if (form_make(&r->formed, r->o->form, r->one->model, set, error)) return r->formed.path;
    snprintf(r->first, sizeof r->first, "%s", error);
    return NULL;
}

static CaseState run_engine(Runner *r, EngineKind kind) {
    weir_context *context = weir_context_new(note_diagnostic, r);
    const char *model = model_of(r);
    CaseState state = model ? CASE_PASS : CASE_FAIL;
    for (int i = 0; i < r->o->noption; i++)
        if (weir_option(context, r->o->option[i][0], r->o->option[i][1])) state = CASE_FAIL;
    if (state == CASE_PASS && engine_open(&r->e, kind, context, model, r->o->threads))
        state = run_sets(r);
    else
        state = failed(r, "");
    engine_close(&r->e);
    weir_context_free(context);
    form_drop(&r->formed);
    return state;
}

CaseState case_run(const CaseOptions *o, const Case *one, Distance *distance, char *reason) {
    CaseState state = CASE_PASS;
    reason[0] = '\0';
    *distance = NO_FLOATS;
    for (int i = 0; i < o->engines && state == CASE_PASS; i++) {
        Runner r = {
            .o = o, .one = one, .reason = reason, .distance = NO_FLOATS, .formed = {.file = -1}};
        state = run_engine(&r, o->engine[i]);
        distance_worsen(distance, r.distance);
        if (state == CASE_PASS && r.by_property) snprintf(reason, REASON, "%s", case_by_property);
        if (state == CASE_PASS || o->engines == 1) continue;
        char text[REASON];
        snprintf(text, sizeof text, "%s: %.980s", o->engine[i] == ENGINE_EVAL ? "eval" : "compiled",
                 reason);
        memcpy(reason, text, sizeof text);
    }
    return state;
}
