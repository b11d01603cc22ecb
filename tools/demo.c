/* SPDX-License-Identifier: Apache-2.0 */
/* The demo: finds the faces in a picture with a compiled model and frames them.
 *
 *     weir_demo ultraface.so picture.png face.png
 *
 * A host as anyone would write it: it knows the model's library by runtime/weir_model.h alone and
 * needs neither the compiler nor ONNX. The model (Ultra-Light-Fast face detector, RFB 320) takes
 * one picture of 320 x 240 as f32[1,3,240,320] with values (rgb - 127) / 128, and gives for 4,420
 * anchors the scores (background, face) and the corners of a box as fractions of the picture. */
#include <dlfcn.h>
#include <png.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/weir_model.h"

enum { WIDTH = 320, HEIGHT = 240, PIXELS = WIDTH * HEIGHT, FACES_MAX = 200 };

typedef struct Face {
    float score, x0, y0, x1, y1; /* pixels */
} Face;

static bool complain(const char *what, const char *subject, const char *why) {
    fprintf(stderr, "error: %s \"%s\": %s\n", what, subject, why);
    return false;
}

/* ---- pictures ------------------------------------------------------------------------------ */

static bool picture_read(const char *path, unsigned char *rgb) {
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&png, path))
        return complain("cannot read", path, png.message);
    png.format = PNG_FORMAT_RGB;
    if (png.width != WIDTH || png.height != HEIGHT) {
        png_image_free(&png);
        return complain("cannot use", path, "the model takes pictures of 320 x 240: scale it");
    }
    if (!png_image_finish_read(&png, NULL, rgb, 0, NULL))
        return complain("cannot read", path, png.message);
    return true;
}

static bool picture_write(const char *path, const unsigned char *rgb) {
    png_image png = {
        .version = PNG_IMAGE_VERSION, .width = WIDTH, .height = HEIGHT, .format = PNG_FORMAT_RGB};
    if (!png_image_write_to_file(&png, path, 0, rgb, 0, NULL))
        return complain("cannot write", path, png.message);
    return true;
}

/* Interleaved bytes to planes of floats. */
static void prepare(const unsigned char *rgb, float *planes) {
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < PIXELS; i++)
            planes[c * PIXELS + i] = ((float)rgb[3 * i + c] - 127.0f) / 128.0f;
}

static void draw_frame(unsigned char *rgb, const Face *face) {
    int x0 = (int)face->x0, y0 = (int)face->y0, x1 = (int)face->x1, y1 = (int)face->y1;
    for (int y = y0 < 0 ? 0 : y0; y <= y1 && y < HEIGHT; y++) {
        for (int x = x0 < 0 ? 0 : x0; x <= x1 && x < WIDTH; x++) {
            if (x - x0 > 1 && x1 - x > 1 && y - y0 > 1 && y1 - y > 1) continue;
            memcpy(rgb + 3 * (y * WIDTH + x), "\x20\xff\x40", 3);
        }
    }
}

/* ---- boxes ---------------------------------------------------------------------------------- */

static float overlap(const Face *a, const Face *b) {
    float w = (a->x1 < b->x1 ? a->x1 : b->x1) - (a->x0 > b->x0 ? a->x0 : b->x0);
    float h = (a->y1 < b->y1 ? a->y1 : b->y1) - (a->y0 > b->y0 ? a->y0 : b->y0);
    if (w <= 0 || h <= 0) return 0;
    float both = w * h;
    return both / ((a->x1 - a->x0) * (a->y1 - a->y0) + (b->x1 - b->x0) * (b->y1 - b->y0) - both);
}

static int by_score(const void *a, const void *b) {
    float x = ((const Face *)a)->score, y = ((const Face *)b)->score;
    return (x < y) - (x > y);
}

/* The anchors that are faces, the surest first; of two that overlap by half only the surer one. */
static int find_faces(const float *scores, const float *boxes, int64_t anchors, Face *face) {
    int n = 0, kept = 0;
    for (int64_t i = 0; i < anchors && n < FACES_MAX; i++) {
        const float *b = boxes + 4 * i;
        if (scores[2 * i + 1] > 0.7f)
            face[n++] =
                (Face){scores[2 * i + 1], b[0] * WIDTH, b[1] * HEIGHT, b[2] * WIDTH, b[3] * HEIGHT};
    }
    qsort(face, (size_t)n, sizeof *face, by_score);
    for (int i = 0; i < n; i++) {
        bool fresh = true;
        for (int k = 0; k < kept && fresh; k++) fresh = overlap(&face[k], &face[i]) < 0.5f;
        if (fresh) face[kept++] = face[i];
    }
    return kept;
}

/* ---- the model ------------------------------------------------------------------------------ */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static const weir_model *model_open(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    void *symbol = library ? dlsym(library, WEIR_MODEL_SYMBOL) : NULL;
    if (!symbol) return complain("cannot load", path, dlerror()), NULL;
    weir_model_fn *fn;
    memcpy(&fn, &symbol, sizeof fn);
    const weir_model *m = fn();
    if (m->abi == WEIR_ABI_VERSION && m->ninputs == 1 && m->noutputs == 2) return m;
    return complain("cannot use", path, "it is not the face detector, or of another version"), NULL;
}

static void model_print(const weir_model *m) {
    printf("model %s:", m->name);
    for (int i = 0; i < m->ninputs + m->noutputs; i++) {
        const weir_port *p = i < m->ninputs ? &m->inputs[i] : &m->outputs[i - m->ninputs];
        printf("%s%s[", i == m->ninputs ? " -> " : " ", p->name);
        for (int k = 0; k < p->rank; k++) printf("%s%s", k ? "," : "", p->dims[k]);
        printf("]");
    }
    printf(", %.1f MB of weights\n", (double)m->weight_bytes / 1e6);
}

/* Runs the model; `out` gets its tensors, to be freed. The first run also allocates; 20 more are
 * timed. */
static bool detect(const weir_model *m, const char *path, float *planes, weir_tensor out[2]) {
    weir_tensor in = {.data = planes, .dtype = WEIR_F32, .rank = 4, .dims = {1, 3, HEIGHT, WIDTH}};
    weir_instance *instance;
    char error[256] = "";
    if (weir_create(m, NULL, &instance, error) != WEIR_OK)
        return complain("cannot create", path, error);
    bool ok = m->shapes(instance, &in, out) == WEIR_OK;
    for (int i = 0; i < 2 && ok; i++) {
        out[i].capacity = 1;
        for (int k = 0; k < out[i].rank; k++) out[i].capacity *= out[i].dims[k];
        ok = (out[i].data = malloc((size_t)out[i].capacity * sizeof(float))) != NULL;
    }
    ok = ok && weir_run(m, instance, &in, out) == WEIR_OK;
    double best = 1e9;
    for (int i = 0; i < 20 && ok; i++) {
        double start = now_ms();
        ok = weir_run(m, instance, &in, out) == WEIR_OK;
        double took = now_ms() - start;
        best = took < best ? took : best;
    }
    if (ok) printf("one run on one thread: %.2f ms\n", best);
    if (!ok) complain("cannot run", path, m->error(instance));
    weir_destroy(m, instance);
    return ok;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: weir_demo MODEL.so PICTURE.png RESULT.png\n"), 2;
    static unsigned char rgb[3 * PIXELS];
    static float planes[3 * PIXELS];
    weir_tensor out[2] = {{0}};
    Face face[FACES_MAX];
    const weir_model *m = model_open(argv[1]);
    if (!m || !picture_read(argv[2], rgb)) return 1;
    model_print(m);
    prepare(rgb, planes);
    if (!detect(m, argv[1], planes, out)) return 1;
    int n = find_faces(out[0].data, out[1].data, out[0].dims[1], face);
    for (int i = 0; i < n; i++) {
        printf("face %d: score %.5f, x %.1f-%.1f, y %.1f-%.1f\n", i + 1, face[i].score, face[i].x0,
               face[i].x1, face[i].y0, face[i].y1);
        draw_frame(rgb, &face[i]);
    }
    free(out[0].data);
    free(out[1].data);
    if (!n) return complain("found no face in", argv[2], "nothing scores above 0.7"), 1;
    return picture_write(argv[3], rgb) ? 0 : 1;
}
