/* SPDX-License-Identifier: Apache-2.0 */
/* weir check: compiled code against the evaluator, output by output. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/bisect.h"
#include "tools/weir/engine.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

typedef struct Check {
    InputOptions in;
    long threads;
    bool bisect;
} Check;

static bool check_option(Args *a, void *user, bool *bad) {
    Check *k = user;
    if (args_is(a, "bisect"))
        k->bisect = true;
    else if (args_is(a, "threads"))
        *bad = !args_int(a, 0, 1024, &k->threads);
    else
        return input_option(a, &k->in, bad);
    return true;
}

static bool run_engine(Engine *e, const HostTensor *inputs, HostTensor *outputs) {
    char error[512] = "";
    if (engine_run(e, inputs, outputs, error)) return true;
    if (error[0]) fprintf(stderr, "error: %s\n", error);
    return false;
}

/* ---- what the model makes of rounding -------------------------------------------------------- */

enum { MOVES = 3 };

/* How far the evaluator's own results go when its inputs and weights are off by some units in the
 * last place, as `relative` of each output in `far`: a model that rounds to codes, or takes the
 * larger of two, goes farther than sums do, and no compiler can be nearer than that. */
static void measure_moves(Engine *eval, const HostTensor *inputs, const HostTensor *want,
                          double *far) {
    HostTensor *out = host_alloc((size_t)eval->noutputs, sizeof *out);
    for (int k = 0; k < MOVES; k++) {
        bool ran = eval_run_moved(eval, inputs, out, (uint64_t)k + 1);
        for (int i = 0; ran && i < eval->noutputs; i++) {
            Agreement a = host_agree(&out[i].t, &want[i].t);
            if (a.comparable && isfinite(a.relative)) far[i] = fmax(far[i], a.relative);
        }
        tensors_free(out, eval->noutputs);
    }
    free(out);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void print_agreement(const HostTensor *want, const Agreement *a) {
    printf("%s: %s[", want->name, dtype_text(want->t.dtype));
    for (int k = 0; k < want->t.rank; k++)
        printf("%s%lld", k ? "," : "", (long long)want->t.dims[k]);
    printf("]  ");
    if (!a->comparable)
        printf("another type or shape");
    else if (a->equal)
        printf("equal");
    else if (a->ulp > 0)
        printf("worst %.0f ulp, relative %.2e (element %lld: %.9g, evaluator %.9g)", a->ulp,
               a->relative, (long long)a->at, a->got, a->want);
    else
        printf("element %lld is %.17g, evaluator %.17g", (long long)a->at, a->got, a->want);
}

/* `far`: by output, of measure_moves; NULL: no output of floats is apart. */
static int report(const HostTensor *got, const HostTensor *want, const Agreement *apart, int n,
                  double share, const double *far) {
    int rc = EXIT_DONE;
    for (int i = 0; i < n; i++) {
        bool ok = agreement_holds(&apart[i], got[i].t.dtype, share);
        print_agreement(&want[i], &apart[i]);
        if (!ok && far && apart[i].comparable && apart[i].relative > 0 &&
            apart[i].relative <= 2 * far[i]) {
            printf(
                "  ok: inputs and weights off by %d units in the last place move the evaluator by "
                "%.2e\n",
                MOVE_UNITS, far[i]);
            continue;
        }
        printf("  %s\n", ok ? "ok" : "DIFFERS");
        if (!ok) rc = EXIT_OURS;
    }
    return rc;
}

static int report_all(Engine *eval, const HostTensor *inputs, const HostTensor *got,
                      const HostTensor *want, double share) {
    int n = 0;
    bool far_apart = false;
    Agreement *apart = host_alloc((size_t)eval->noutputs, sizeof *apart);
    double *far = host_alloc((size_t)eval->noutputs, sizeof *far);
    for (; n < eval->noutputs && got[n].t.data; n++) {
        apart[n] = host_agree(&got[n].t, &want[n].t);
        far_apart |= apart[n].comparable && apart[n].relative > 0 && isfinite(apart[n].relative) &&
                     !agreement_holds(&apart[n], got[n].t.dtype, share);
    }
    if (far_apart) measure_moves(eval, inputs, want, far);
    int rc = report(got, want, apart, n, share, far_apart ? far : NULL);
    free(apart);
    free(far);
    return rc;
}

/* Both engines on the same inputs. */
static int compare(Engine *compiled, Engine *eval, const HostTensor *inputs, double share) {
    HostTensor *got = host_alloc((size_t)compiled->noutputs, sizeof *got);
    HostTensor *want = host_alloc((size_t)compiled->noutputs, sizeof *want);
    int rc = EXIT_MODEL;
    if (run_engine(eval, inputs, want)) {
        bool ran = run_engine(compiled, inputs, got);
        int said = report_all(eval, inputs, got, want, share);
        rc = ran ? said : EXIT_OURS;
    }
    tensors_free(got, compiled->noutputs);
    tensors_free(want, compiled->noutputs);
    free(got);
    free(want);
    return rc;
}

static int check(weir_context *c, const char *model, const Check *k) {
    Engine compiled = {0}, eval = {0};
    int rc = EXIT_MODEL;
    if (engine_open(&eval, ENGINE_EVAL, c, model, (int)k->threads)) {
        HostTensor *inputs = host_alloc((size_t)eval.ninputs, sizeof *inputs);
        if (inputs_make(&eval, &k->in, inputs)) {
            bool opened = engine_open(&compiled, ENGINE_COMPILED, c, model, (int)k->threads);
            rc = opened ? EXIT_DONE : EXIT_MODEL;
            if (rc == EXIT_DONE) rc = compare(&compiled, &eval, inputs, eval.share);
            if (k->bisect && rc != EXIT_MODEL) {
                int found = bisect(c, model, inputs, eval.ninputs, (int)k->threads);
                if (rc == EXIT_DONE) rc = found;
            }
        }
        tensors_free(inputs, eval.ninputs);
        free(inputs);
    }
    engine_close(&compiled);
    engine_close(&eval);
    return rc;
}

int verb_check(Args *a) {
    const char *model;
    Check k = {.in = {.random = true, .seed = 1}, .threads = 1};
    weir_context *c = context_new(false);
    int rc = session_args(a, c, &model, check_option, &k) ? check(c, model, &k) : EXIT_USAGE;
    weir_context_free(c);
    return rc;
}
