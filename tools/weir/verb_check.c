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

static bool report(const HostTensor *got, const HostTensor *want, double share) {
    Agreement a = host_agree(&got->t, &want->t);
    bool ok = agreement_holds(&a, got->t.dtype, share);
    printf("%s: %s[", want->name, dtype_text(want->t.dtype));
    for (int k = 0; k < want->t.rank; k++)
        printf("%s%lld", k ? "," : "", (long long)want->t.dims[k]);
    printf("]  ");
    if (!a.comparable)
        printf("another type or shape");
    else if (a.equal)
        printf("equal");
    else if (a.ulp > 0)
        printf("worst %.0f ulp, relative %.2e (element %lld: %.9g, evaluator %.9g)", a.ulp,
               a.relative, (long long)a.at, a.got, a.want);
    else
        printf("element %lld is %.17g, evaluator %.17g", (long long)a.at, a.got, a.want);
    printf("  %s\n", ok ? "ok" : "DIFFERS");
    return ok;
}

static bool run_engine(Engine *e, const HostTensor *inputs, HostTensor *outputs) {
    char error[512] = "";
    if (engine_run(e, inputs, outputs, error)) return true;
    if (error[0]) fprintf(stderr, "error: %s\n", error);
    return false;
}

/* Both engines on the same inputs. */
static int compare(Engine *compiled, Engine *eval, const HostTensor *inputs, double share) {
    HostTensor *got = calloc((size_t)compiled->noutputs + 1, sizeof *got);
    HostTensor *want = calloc((size_t)compiled->noutputs + 1, sizeof *want);
    int rc = EXIT_MODEL;
    if (run_engine(eval, inputs, want)) {
        rc = run_engine(compiled, inputs, got) ? EXIT_DONE : EXIT_OURS;
        for (int i = 0; rc != EXIT_MODEL && i < compiled->noutputs && got[i].t.data; i++)
            if (!report(&got[i], &want[i], share)) rc = EXIT_OURS;
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
        HostTensor *inputs = calloc((size_t)eval.ninputs + 1, sizeof *inputs);
        if (inputs_make(&eval, &k->in, inputs)) {
            bool opened = engine_open(&compiled, ENGINE_COMPILED, c, model, (int)k->threads);
            rc = opened ? EXIT_DONE : EXIT_MODEL;
            if (rc == EXIT_DONE)
                rc = compare(&compiled, &eval, inputs, agree_share(context_options(c)));
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
