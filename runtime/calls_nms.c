/* SPDX-License-Identifier: Apache-2.0 */
/* nms: non-maximum suppression as ONNX NonMaxSuppression defines it. Per batch and class,
 * candidates above the score threshold are taken by descending score (equal scores by box number,
 * of which there are fewer than 2^32);
 * one is kept when its overlap (intersection over union) with every box kept before is not above
 * the threshold. */
#include "runtime/calls.h"

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

/* Boxes that were kept, by coordinate, so that several are compared at once. */
enum { AT_ONCE = 8 };
typedef struct Chosen {
    float *y0, *x0, *y1, *x1, *area;
    int64_t n;
} Chosen;

/* Room for n boxes, and what the last comparison looks at beyond them. */
static Chosen chosen_in(float *room, int64_t n) {
    int64_t each = n + AT_ONCE;
    return (Chosen){room, room + each, room + 2 * each, room + 3 * each, room + 4 * each, 0};
}

static void choose(Chosen *c, Corners b) {
    for (int64_t k = 0; c->n % AT_ONCE == 0 && k < AT_ONCE; k++)
        c->y0[c->n + k] = c->x0[c->n + k] = c->y1[c->n + k] = c->x1[c->n + k] = c->area[c->n + k] =
            0;
    c->y0[c->n] = b.y0, c->x0[c->n] = b.x0, c->y1[c->n] = b.y1, c->x1[c->n] = b.x1;
    c->area[c->n++] = (b.y1 - b.y0) * (b.x1 - b.x0);
}

/* Is the box's overlap with one of those chosen above the threshold? A box without area overlaps
 * nothing. */
static int overlaps(const Chosen *c, Corners b, float threshold) {
    float area = (b.y1 - b.y0) * (b.x1 - b.x0);
    for (int64_t i = 0; i < c->n; i += AT_ONCE) {
        int any = 0;
        for (int64_t k = i; k < i + AT_ONCE; k++) {
            float h = least(c->y1[k], b.y1) - most(c->y0[k], b.y0);
            float w = least(c->x1[k], b.x1) - most(c->x0[k], b.x0);
            float both = h * w, all = c->area[k] + area - both;
            any |= (h > 0) & (w > 0) & (c->area[k] > 0) & (area > 0) & (all > 0) &
                   (both / all > threshold);
        }
        if (any) return 1;
    }
    return 0;
}

/* A candidate, a number of 64 bits, and the coordinates and area of each box. */
int64_t weir_call_nms_scratch(const weir_call *c) {
    int64_t bytes, each = (int64_t)(sizeof(uint64_t) + 5 * sizeof(float));
    return __builtin_mul_overflow(c->in[0].dims[1] + AT_ONCE, each, &bytes) ? INT64_MAX : bytes;
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

/* ---- candidates, best first ------------------------------------------------------------------ */

/* Greater for a higher score, then for a lower box number; the number stands in the low half. NaN
 * is below all scores, and the two zeros are one. */
static uint64_t candidate(float score, int64_t box) {
    uint32_t bits;
    score += 0.0f;
    __builtin_memcpy(&bits, &score, sizeof bits);
    bits = score != score ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (uint32_t)~box;
}

static int64_t box_of(uint64_t candidate) {
    return (uint32_t)~candidate;
}

/* heap[at] sinks until none below it is greater. */
static void sink(uint64_t *heap, int64_t n, int64_t at) {
    uint64_t value = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && heap[child + 1] > heap[child];
        if (heap[child] <= value) break;
        heap[at] = heap[child];
    }
    heap[at] = value;
}

/* Keeps boxes of one class: their numbers to heap[n-1], heap[n-2], .., which candidates have left
 * by then. Only as many candidates are put in order as are looked at. */
static int64_t keep(const float *boxes, const float *score, int64_t n, int64_t center,
                    const Limits *l, uint64_t *heap, Chosen *chosen) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        heap[count] = candidate(score[i], i);
        count += !l->has_score || score[i] > l->score;
    }
    for (int64_t i = count / 2; i-- > 0;) sink(heap, count, i);
    while (count > 0 && chosen->n < l->most) {
        int64_t best = box_of(heap[0]);
        heap[0] = heap[--count];
        sink(heap, count, 0);
        Corners box = corners(boxes + 4 * best, center);
        if (overlaps(chosen, box, l->overlap)) continue;
        choose(chosen, box);
        heap[n - chosen->n] = (uint64_t)best;
    }
    return chosen->n;
}

void weir_call_nms(weir_call *c) {
    int64_t batches = c->in[1].dims[0], classes = c->in[1].dims[1], n = c->in[0].dims[1];
    Limits l = limits_of(c);
    uint64_t *heap = c->scratch;
    int64_t *to = c->out[0].data, rows = 0;
    for (int64_t b = 0; b < batches; b++)
        for (int64_t k = 0; k < classes; k++) {
            const float *boxes = (const float *)c->in[0].data + b * n * 4;
            const float *score = (const float *)c->in[1].data + (b * classes + k) * n;
            Chosen chosen = chosen_in((float *)(heap + n), n);
            int64_t kept = keep(boxes, score, n, c->attr[0], &l, heap, &chosen);
            for (int64_t i = 0; i < kept; i++, rows++) {
                to[3 * rows] = b;
                to[3 * rows + 1] = k;
                to[3 * rows + 2] = (int64_t)heap[n - 1 - i];
            }
        }
    c->define[0] = rows;
}
