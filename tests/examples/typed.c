/* SPDX-License-Identifier: Apache-2.0 */
/* A program linked with its model, by the header that comes with it, which knows types and dims:
 *
 *     weir compile mnist_cntk.onnx -o mnist.so --name mnist --emit header --emit-dir h
 *     cc typed.c -I h ./mnist.so -o typed */
#include <stdio.h>

#include "mnist.h"

int main(void) {
    static float image[28 * 28], score[10]; /* a stroke from top to bottom */
    for (int y = 4; y < 24; y++) image[28 * y + 13] = image[28 * y + 14] = 255;
    weir_tensor in[MNIST_INPUTS] = {[MNIST_IN_INPUT3] = mnist_in_Input3(image)};
    weir_tensor out[MNIST_OUTPUTS] = {[MNIST_OUT_PLUS214_OUTPUT_0] =
                                          mnist_out_Plus214_Output_0(score, 10)};

    const weir_model *m = weir_model_descriptor();
    char error[256];
    weir_instance *instance;
    if (weir_create(m, NULL, &instance, error)) return fprintf(stderr, "%s\n", error), 1;
    if (weir_run(m, instance, in, out)) return fprintf(stderr, "%s\n", m->error(instance)), 1;
    int best = 0;
    for (int i = 1; i < 10; i++)
        if (score[i] > score[best]) best = i;
    printf("digit %d\n", best);
    weir_destroy(m, instance);
    return 0;
}
