/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the model once on zeros and prints the shapes of its outputs. Symbolic dims take the number
 * given as argument, else 1. Delete this file when you link the model into a program of your own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/weir_model.h"

const weir_model *weir_model_descriptor(void);

static int64_t count(const weir_tensor *t) {
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->dims[k];
    return n;
}

static void set_port(weir_tensor *t, const weir_port *port, int64_t symbolic) {
    t->dtype = port->dtype;
    t->rank = port->rank;
    for (int k = 0; k < port->rank; k++) {
        char *end;
        t->dims[k] = strtoll(port->dims[k], &end, 10);
        if (*end || end == port->dims[k]) t->dims[k] = symbolic;
    }
}

static int give_up(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

int main(int argc, char **argv) {
    const weir_model *m = weir_model_descriptor();
    int64_t symbolic = argc > 1 ? strtoll(argv[1], NULL, 10) : 1;
    weir_instance *in;
    char error[256];
    if (weir_create(m, NULL, &in, error)) return give_up("create", error);
    weir_tensor *x = calloc((size_t)m->ninputs + 1, sizeof *x),
                *y = calloc((size_t)m->noutputs + 1, sizeof *y);
    for (int i = 0; x && i < m->ninputs; i++) {
        set_port(&x[i], &m->inputs[i], symbolic);
        x[i].data = calloc((size_t)count(&x[i]) + 1, 16);
    }
    if (!x || !y || m->shapes(in, x, y)) return give_up("shapes", m->error(in));
    for (int i = 0; i < m->noutputs; i++) {
        y[i].capacity = count(&y[i]);
        y[i].data = calloc((size_t)y[i].capacity + 1, 16);
    }
    if (weir_run(m, in, x, y)) return give_up("run", m->error(in));
    for (int i = 0; i < m->noutputs; i++) {
        printf("%s:", m->outputs[i].name);
        for (int k = 0; k < y[i].rank; k++) printf(" %lld", (long long)y[i].dims[k]);
        printf("\n");
    }
    weir_destroy(m, in);
    return 0;
}
