/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of your own: their meaning is text, compiled into the model like any other, or a C
 * function. The model applies com.acme.Swish (beta 0.5), RowNorm (epsilon 0.25) and Median. Prints
 * "norms 0.5000 1.1379, medians 0.0000 0.6026". */
#include <stdio.h>

#include "compiler/weir.h"

static const char operators[] =
    "flow com.acme.Swish (N in 0.., M in 0..) {\n"
    "  in x : f32[N,M]\n"
    "  out y : f32[N,M]\n"
    "  map y [i:N, j:M] { x[i,j] * sigmoid(x[i,j] * ${beta:1.0}) -> y[i,j] }\n"
    "}\n"
    "flow com.acme.RowNorm (N in 0.., M in 0..) {\n"
    "  in x : f32[N,M]\n"
    "  in g : f32[M]\n"
    "  out y : f32[N,M]\n"
    "  out n : f32[N]\n"
    "  tmp s : f32[N]\n"
    "  map s [i:N, j:M] { x[i,j] * x[i,j] -> s[i] sum:f32 }\n"
    "  map n [i:N] { sqrt(s[i] + ${epsilon}) -> n[i] }\n"
    "  map y [i:N, j:M] { x[i,j] / n[i] * g[j] -> y[i,j] }\n"
    "}\n"
    "flow com.acme.Median (N in 0.., M in 1..) {\n"
    "  in x : f32[N,M]\n"
    "  out y : f32[N]\n"
    "  call c = extern.acme_median(x) -> y\n" /* median.c, in this program */
    "}\n";

static void say(void *user, const weir_diagnostic *d) {
    (void)user;
    if (d->severity == 0) fprintf(stderr, "%s\n", d->text);
}

int main(int argc, char **argv) {
    weir_context *c = weir_context_new(say, NULL);
    if (argc < 2 || weir_operators(c, operators)) return 1;
    weir_loaded *loaded = weir_load_file(c, argv[1]);
    if (!loaded) return 1;
    const weir_model *m = weir_loaded_model(loaded);

    static float x[2][5], y[2][5], norm[2], middle[2];
    for (int j = 0; j < 5; j++) x[1][j] = 0.7684038f;
    weir_tensor in = {.data = x, .dtype = WEIR_F32, .rank = 2, .dims = {2, 5}};
    weir_tensor out[] = {{.data = y, .capacity = 10},
                         {.data = norm, .capacity = 2},
                         {.data = middle, .capacity = 2}};
    weir_instance *instance;
    if (weir_create(m, NULL, &instance, NULL) || weir_run(m, instance, &in, out)) return 1;
    printf("norms %.4f %.4f, medians %.4f %.4f\n", norm[0], norm[1], middle[0], middle[1]);
    weir_destroy(m, instance);
    weir_unload(loaded);
    weir_context_free(c);
    return 0;
}
