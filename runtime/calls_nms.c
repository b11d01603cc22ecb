/* SPDX-License-Identifier: Apache-2.0 */
/* nms: non-maximum suppression as ONNX NonMaxSuppression defines it. Per batch and class,
 * candidates above the score threshold are taken by descending score (equal scores by box number,
 * of which there are fewer than 2^32);
 * one is kept when its overlap (intersection over union) with every box kept before is not above
 * the threshold. */
#include <math.h>

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

/* ---- boxes that were kept ---------------------------------------------------------------------
 *
 * They lie in cells of a grid by their first corner, so that a box meets those near it alone. */

/* Boxes compared at once, by coordinate; those behind the last one have no area. */
enum { AT_ONCE = 8, SIDE_MOST = 64, BOXES_OF_CELL = 32 };
typedef struct Block {
    float y0[AT_ONCE], x0[AT_ONCE], y1[AT_ONCE], x1[AT_ONCE], area[AT_ONCE];
    struct Block *next;
    int64_t n;
} Block;

/* Cells that hold boxes, in the order in which they came to do so: between which sides these lie,
 * and the boxes; slot: by place in the grid, number + 1. */
typedef struct Chosen {
    Block *room, **block;
    float *y0, *x0, *y1, *x1;
    int16_t *slot;
    int64_t n, blocks, cells, side;
    Corners all;       /* between which sides first corners lie */
    float down, along; /* cells for a unit */
} Chosen;

/* Rows and columns of the grid for n boxes. */
static int64_t side_for(int64_t n) {
    int64_t side = 1;
    while (side < SIDE_MOST && side * side * BOXES_OF_CELL < n) side++;
    return side;
}

/* Places in it, in whole groups. */
static int64_t places(int64_t side) {
    return (side * side + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
}

/* Blocks that n boxes fill: of each cell the last one may have room. */
static int64_t most_blocks(int64_t n) {
    return n / AT_ONCE + places(side_for(n));
}

/* In memory behind n candidates; no grid yet. */
static Chosen chosen_in(void *room, int64_t n) {
    Chosen c = {.room = room};
    int64_t cells = places(side_for(n));
    c.block = (Block **)(c.room + most_blocks(n));
    c.y0 = (float *)(c.block + cells);
    c.x0 = c.y0 + cells, c.y1 = c.x0 + cells, c.x1 = c.y1 + cells;
    c.slot = (int16_t *)(c.x1 + cells);
    return c;
}

/* Between which sides the first corners of all boxes lie. */
static Corners first_corners(const float *boxes, int64_t n, int64_t center) {
    Corners all = {INFINITY, INFINITY, -INFINITY, -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        Corners b = corners(boxes + 4 * i, center);
        all.y0 = least(b.y0, all.y0), all.x0 = least(b.x0, all.x0);
        all.y1 = most(b.y0, all.y1), all.x1 = most(b.x0, all.x1);
    }
    return all;
}

/* A grid for n boxes at most, none of which is chosen yet. */
static void choose_none(Chosen *c, int64_t n) {
    Corners all = c->all;
    c->side = side_for(n);
    c->down = all.y1 > all.y0 ? (float)c->side / (all.y1 - all.y0) : 0;
    c->along = all.x1 > all.x0 ? (float)c->side / (all.x1 - all.x0) : 0;
    c->cells = c->n = c->blocks = 0;
    for (int64_t i = 0; i < c->side * c->side; i++) c->slot[i] = 0;
}

/* A coordinate's row or column of cells; what is not finite is in the first or last. */
static int64_t cell_of(float at, float first, float scale, int64_t side) {
    float cell = (at - first) * scale;
    return cell >= 0 ? cell < (float)side ? (int64_t)cell : side - 1 : 0;
}

/* The number of the box's cell, which may be new. The first one of a group makes all of it such
 * that nothing lies in them. */
static int64_t cell_for(Chosen *c, Corners b) {
    int16_t *slot = &c->slot[cell_of(b.y0, c->all.y0, c->down, c->side) * c->side +
                             cell_of(b.x0, c->all.x0, c->along, c->side)];
    if (*slot) return *slot - 1;
    for (int64_t k = c->cells; c->cells % AT_ONCE == 0 && k < c->cells + AT_ONCE; k++)
        c->y0[k] = c->x0[k] = INFINITY, c->y1[k] = c->x1[k] = -INFINITY;
    c->block[c->cells] = NULL;
    *slot = (int16_t)++c->cells;
    return c->cells - 1;
}

static void choose(Chosen *c, Corners b) {
    int64_t cell = cell_for(c, b);
    Block *to = c->block[cell];
    if (!to || to->n == AT_ONCE) {
        to = &c->room[c->blocks++];
        *to = (Block){.next = c->block[cell]};
        c->block[cell] = to;
    }
    to->y0[to->n] = b.y0, to->x0[to->n] = b.x0, to->y1[to->n] = b.y1, to->x1[to->n] = b.x1;
    to->area[to->n++] = (b.y1 - b.y0) * (b.x1 - b.x0);
    c->y0[cell] = least(b.y0, c->y0[cell]), c->x0[cell] = least(b.x0, c->x0[cell]);
    c->y1[cell] = most(b.y1, c->y1[cell]), c->x1[cell] = most(b.x1, c->x1[cell]);
    c->n++;
}

/* Is the box's overlap with one of the block's above the threshold? A box without area overlaps
 * nothing. */
static int overlaps_block(const Block *c, Corners b, float threshold) {
    float area = (b.y1 - b.y0) * (b.x1 - b.x0);
    int any = 0;
    for (int64_t k = 0; k < AT_ONCE; k++) {
        float h = least(c->y1[k], b.y1) - most(c->y0[k], b.y0);
        float w = least(c->x1[k], b.x1) - most(c->x0[k], b.x0);
        float both = h * w, all = c->area[k] + area - both;
        any |= (h > 0) & (w > 0) & (c->area[k] > 0) & (area > 0) & (all > 0) &
               (both / all > threshold);
    }
    return any;
}

/* With one of those chosen? */
static int overlaps(const Chosen *c, Corners b, float threshold) {
    for (int64_t i = 0; i < c->cells; i += AT_ONCE) {
        int any = 0, near[AT_ONCE];
        for (int64_t k = 0; k < AT_ONCE; k++) {
            near[k] = (c->y1[i + k] > b.y0) & (c->y0[i + k] < b.y1) & (c->x1[i + k] > b.x0) &
                      (c->x0[i + k] < b.x1);
            any |= near[k];
        }
        for (int64_t k = 0; any && k < AT_ONCE; k++)
            for (const Block *p = near[k] ? c->block[i + k] : NULL; p; p = p->next)
                if (overlaps_block(p, b, threshold)) return 1;
    }
    return 0;
}

/* A candidate, a number of 64 bits, for each box, the blocks and the grid. */
int64_t weir_call_nms_scratch(const weir_call *c) {
    int64_t n = c->in[0].dims[1], cells = places(side_for(n));
    int64_t each = (int64_t)(sizeof(Block *) + 4 * sizeof(float) + sizeof(int16_t));
    if (n > INT64_MAX / (int64_t)(2 * sizeof(Block))) return INT64_MAX;
    return n * (int64_t)sizeof(uint64_t) + most_blocks(n) * (int64_t)sizeof(Block) + cells * each;
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
    choose_none(chosen, count < l->most ? count : l->most);
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
    Chosen chosen = chosen_in(heap + n, n);
    int64_t *to = c->out[0].data, rows = 0;
    for (int64_t b = 0; b < batches; b++) {
        const float *boxes = (const float *)c->in[0].data + b * n * 4;
        chosen.all = first_corners(boxes, n, c->attr[0]);
        for (int64_t k = 0; k < classes; k++) {
            const float *score = (const float *)c->in[1].data + (b * classes + k) * n;
            int64_t kept = keep(boxes, score, n, c->attr[0], &l, heap, &chosen);
            for (int64_t i = 0; i < kept; i++, rows++) {
                to[3 * rows] = b;
                to[3 * rows + 1] = k;
                to[3 * rows + 2] = (int64_t)heap[n - 1 - i];
            }
        }
    }
    c->define[0] = rows;
}
