/* SPDX-License-Identifier: Apache-2.0 */
/* nms: non-maximum suppression as ONNX NonMaxSuppression defines it. Per batch and class,
 * candidates above the score threshold are taken by descending score (equal scores by box number);
 * one is kept when its overlap (intersection over union) with every box kept before is not above
 * the threshold. */
#include "runtime/calls.h"
#include "runtime/keys.h"

typedef struct Corners {
    float y0, x0, y1, x1;
} Corners;

static float least(float a, float b) {
    return a < b ? a : b;
}

static float most(float a, float b) {
    return a > b ? a : b;
}

static Corners corners(const float *b, int64_t center) {
    if (center)
        return (Corners){b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
    return (Corners){least(b[0], b[2]), least(b[1], b[3]), most(b[0], b[2]), most(b[1], b[3])};
}

static int overlaps(Corners a, Corners b, float threshold) {
    float h = least(a.y1, b.y1) - most(a.y0, b.y0), w = least(a.x1, b.x1) - most(a.x0, b.x0);
    if (!(h > 0) || !(w > 0)) return 0;
    float both = h * w, first = (a.y1 - a.y0) * (a.x1 - a.x0),
          second = (b.y1 - b.y0) * (b.x1 - b.x0);
    float all = first + second - both;
    if (first <= 0 || second <= 0 || all <= 0) return 0;
    return both / all > threshold;
}

static int higher(void *user, int64_t a, int64_t b) {
    const float *score = user;
    return score[a] > score[b];
}

int64_t weir_call_nms_scratch(const weir_call *c) {
    int64_t bytes;
    return __builtin_mul_overflow(c->in[0].dims[1], (int64_t)(2 * sizeof(int64_t)), &bytes)
               ? INT64_MAX
               : bytes;
}

typedef struct Limits {
    int64_t most;
    float overlap, score;
    int has_score;
} Limits;

static Limits limits_of(const weir_call *c) {
    Limits l = {0, 0, 0, 0};
    if (c->nin > 2 && c->in[2].data) l.most = *(const int64_t *)c->in[2].data;
    if (c->nin > 3 && c->in[3].data) l.overlap = *(const float *)c->in[3].data;
    if (c->nin > 4 && c->in[4].data) {
        l.has_score = 1;
        l.score = *(const float *)c->in[4].data;
    }
    return l;
}

/* Keeps boxes of one class: their numbers to kept[0..], which shares its memory with `order`'s
 * start. */
static int64_t keep(const float *boxes, float *score, int64_t n, int64_t center, const Limits *l,
                    int64_t *order, int64_t *spare) {
    int64_t count = 0, kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (!l->has_score || score[i] > l->score) order[count++] = i;
    weir_sort(order, spare, count, higher, score);
    for (int64_t i = 0; i < count && kept < l->most; i++) {
        Corners box = corners(boxes + 4 * order[i], center);
        int free = 1;
        for (int64_t k = 0; free && k < kept; k++)
            free = !overlaps(corners(boxes + 4 * order[k], center), box, l->overlap);
        if (free) order[kept++] = order[i];
    }
    return kept;
}

void weir_call_nms(weir_call *c) {
    int64_t batches = c->in[1].dims[0], classes = c->in[1].dims[1], n = c->in[0].dims[1];
    Limits l = limits_of(c);
    int64_t *order = c->scratch, *to = c->out[0].data, rows = 0;
    for (int64_t b = 0; b < batches; b++)
        for (int64_t k = 0; k < classes; k++) {
            const float *boxes = (const float *)c->in[0].data + b * n * 4;
            float *score = (float *)c->in[1].data + (b * classes + k) * n;
            int64_t kept = keep(boxes, score, n, c->attr[0], &l, order, order + n);
            for (int64_t i = 0; i < kept; i++, rows++) {
                to[3 * rows] = b;
                to[3 * rows + 1] = k;
                to[3 * rows + 2] = order[i];
            }
        }
    c->define[0] = rows;
}
