/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `algorithm`: which maps are convolutions by a window that tiles may do, and what tiles of
 * each size cost.
 *
 * Fewer products are paid for with bytes: weights grow, from 9 to 16 or 36 elements of a window of
 * 3x3, and come from memory in every run, and all elements of the tiles are written and read again.
 * Seconds of one core weigh them: products at the machine's rate, with a load and a store of each
 * sum for every block of terms, the elements at the speed of the inner cache, weights at that of
 * memory, beside the products.
 *
 * Relative L2 error of one layer of 128 channels against f64 (half-normal inputs, He's weights),
 * 3x3: direct in f32 4.3e-7, 4 points 3.2e-7, 6 points (0, +-1, +-2) 19e-7, at 5/8 and 3/2 8.9e-7.
 * Along one dim, taps by points: 2 by 4 2.3e-7 (direct 2.8e-7), 2 by 6 3.6e-7, 3 by 6 3.3e-7
 * (3.5e-7), 5 by 6 3.4e-7 (4.6e-7); 64 channels, 3 by 8 5.9e-7 (2.7e-7), 5 by 8 5.0e-7 (3.6e-7), 7
 * by 8 5.5e-7 (4.0e-7). */
#include <math.h>

#include "passes/algorithm.h"
#include "passes/dot.h"
#include "passes/prepare.h"
#include "passes/schedule.h"

/* A larger tile must save so much of the time, and a change of algorithm so many seconds. */
static const double worth = 0.95, least_gain = 2e-6;
/* Of products and the reading of weights, the shorter goes on beside the longer but for so much. */
static const double unhidden = 0.25;

/* The window dim that slides in steps of 1 along result dim d in the read's only index that uses d,
 * and how far apart its taps lie; or -1. */
static int slides_along(const Flow *flow, const Map *map, const Contraction *c, int d,
                        int64_t *apart) {
    const Access *a = &map->body.val.at[c->a].read;
    int window = -1;
    for (int k = 0; k < a->rank; k++) {
        if (!dim_uses(a->at[k], map->dim.at[d].sym)) continue;
        if (window >= 0) return -1;
        for (int r = 0; r < map->dim.n; r++) {
            if (c->role[r] != ROLE_WINDOW || !dim_uses(a->at[k], map->dim.at[r].sym)) continue;
            Dim sym[] = {map->dim.at[d].sym, map->dim.at[r].sym}, coef[2], rest;
            bool steps = dim_affine(flow->ctx, a->at[k], sym, 2, coef, &rest) &&
                         dim_is(coef[0], 1) && dim_is_const(coef[1], apart) && *apart >= 1 &&
                         *apart <= APART_MOST && dim_is_const(rest, NULL);
            if (window >= 0 || !steps) return -1;
            window = r;
        }
    }
    return window;
}

/* Is the operand of a product this read, f32 or converted to it? */
static bool reads_as_f32(const Body *body, int operand, int read) {
    const Val *v = &body->val.at[operand];
    if (v->kind == VAL_PRIM && v->prim == P_CVT && v->type == F32)
        v = &body->val.at[operand = v->arg[0]];
    return operand == read && dtype_is_float(v->type) && dtype_bits(v->type) <= 32;
}

bool sums_products(const Map *map, const Contraction *c) {
    const Body *body = &map->body;
    const Val *product = &body->val.at[c->product], *a = &body->val.at[c->a],
              *b = &body->val.at[c->b];
    const Write *w = &map->write.at[0];
    Bits other = 0;
    if (a->has_else && (!body_const_bits(body, a->arg[0], &other) || other)) return false;
    bool straight =
        reads_as_f32(body, product->arg[0], c->a) && reads_as_f32(body, product->arg[1], c->b);
    bool crossed =
        reads_as_f32(body, product->arg[0], c->b) && reads_as_f32(body, product->arg[1], c->a);
    return w->combine->simple == P_ADD && w->combine->type[0] == F32 && w->val[0] == c->product &&
           product->type == F32 && (straight || crossed) && !b->has_else;
}

bool window_of(const Flow *flow, const bool *weights, const Map *map, Window *win) {
    Contraction c = map_contraction(flow, map);
    if (!c.is || map->cons.n || map->dim.n > RANK_MAX - 4 || !sums_products(map, &c) ||
        !weights[map->body.val.at[c.b].read.cont])
        return false;
    *win = (Window){.input = c.a, .weights = c.b, .first = 2};
    for (int i = 0; i < 2; i++)
        win->slide[i] = win->window[i] = -1, win->taps[i] = win->apart[i] = 1;
    int slides = 0, windows = 0;
    for (int d = map->dim.n - 1; d >= 0; d--) {
        win->role[d] = c.role[d];
        windows += c.role[d] == ROLE_WINDOW;
        if (map->dim.at[d].seq || c.role[d] == ROLE_OTHER) return false;
        int64_t apart = 1;
        int r = c.role[d] == ROLE_M ? slides_along(flow, map, &c, d, &apart) : -1;
        slides += r >= 0;
        if (r < 0 || win->first == 0) continue;
        int64_t taps = map_extent(map, r, 0);
        if (taps < 2 || taps > TAPS_MOST || map_extent(map, d, apart + 1) <= apart) return false;
        int i = --win->first;
        win->slide[i] = d, win->window[i] = r, win->taps[i] = taps, win->apart[i] = apart;
    }
    if (win->first == 2 || windows != slides || win->window[0] == win->window[1]) return false;
    for (int i = win->first; i < 2; i++)
        win->role[win->slide[i]] = win->role[win->window[i]] = ROLE_OTHER;
    return true;
}

/* Extents of a convolution: channels of a group in and out, groups, images, rows and columns; `in`
 * counts a channel once for each tap of other windows. */
typedef struct Sizes {
    double channels, in, out, groups, images, results[2];
} Sizes;

static Sizes sizes_of(const Flow *flow, const Map *map, const Window *win) {
    Sizes z = {1, 1, 1, 1, 1, {1, 1}};
    for (int i = win->first; i < 2; i++) z.results[i] = (double)map_usual(flow, map, win->slide[i]);
    for (int d = 0; d < map->dim.n; d++) {
        double extent = (double)map_extent(map, d, 1);
        if (win->role[d] == ROLE_K || win->role[d] == ROLE_WINDOW) z.in *= extent;
        if (win->role[d] == ROLE_K) z.channels *= extent;
        if (win->role[d] == ROLE_N) z.out *= extent;
        if (win->role[d] == ROLE_BATCH) z.groups *= extent;
        if (win->role[d] == ROLE_M) z.images *= extent;
    }
    return z;
}

double seconds_beside(double multiply, double read) {
    return read > multiply ? read + multiply * unhidden : multiply + read * unhidden;
}

/* Seconds of one core without tiles: with fast mathematics products may be of bf16 (narrow.c). */
static double direct_seconds(const PassEnv *env, const Sizes *z, const Window *win) {
    const Machine *machine = env->machine;
    double products = 2 * (double)(win->taps[0] * win->taps[1]) * z->in * z->out * z->groups;
    double rows = z->images * z->results[0] * z->results[1], flops = machine->fma_flops;
    bool narrow = env->math == MATH_FAST && z->groups == 1;
    if (narrow) flops = dot_flops(machine, BF16, BF16, rows, (int64_t)z->in);
    double bytes = (flops > machine->fma_flops ? 1 : 2) * products;
    double multiply = products * rows / flops,
           read = bytes / machine->level[machine->nlevels - 1].bandwidth;
    return multiply > read ? multiply : read;
}

/* The elements of a tile. */
static double elements_of(const Window *win, int points) {
    return win->first ? points : points * points;
}

/* The same with tiles, those of each residue of a spread window. */
static double tiled_seconds(const Machine *machine, const Sizes *z, const Window *win, int points) {
    double elements = elements_of(win, points), tiles = z->images;
    for (int i = win->first; i < 2; i++) {
        double apart = (double)win->apart[i], results = (double)(points + 1 - win->taps[i]);
        tiles *= ceil(z->results[i] / (apart * results)) * apart;
    }
    double multiply = 2 * elements * tiles * z->in * z->out * z->groups / machine->fma_flops;
    double weights = 4 * elements * z->in * z->out * z->groups;
    double read = weights / machine->level[machine->nlevels - 1].bandwidth;
    multiply *= 1 + 2.0 / (win->first ? SUM_BLOCK : TILE_SUM_BLOCK);
    double moved = 4 * elements * tiles * (z->in + z->out) * z->groups;
    double move = 4 * moved / machine->level[1].bandwidth;
    return move + seconds_beside(multiply, read);
}

/* Eight points along two dims, or for windows of few taps, would be off by more than twice what a
 * sum is. */
bool may_tile(const Flow *flow, const Map *map, const Window *win, int points) {
    enum { TAPS_LEAST = 5 };
    Sizes z = sizes_of(flow, map, win);
    double taps = (double)(win->taps[0] * win->taps[1]);
    for (int i = win->first; i < 2; i++)
        if (points + 1 - win->taps[i] < 2) return false;
    return (points < POINTS_MOST || (win->first && win->taps[1] >= TAPS_LEAST)) &&
           elements_of(win, points) * taps * z.in * z.out * z.groups <= CONSTANT_VOLUME;
}

/* Channels that fill no vector stay as they are; and for blocks of threads there is no schedule of
 * tiles in strips. */
int choose_points(const PassEnv *env, const Flow *flow, const Map *map, const Window *win) {
    const Machine *machine = env->machine;
    Sizes z = sizes_of(flow, map, win);
    double lanes = machine->vector_bytes / 4, direct = direct_seconds(env, &z, win), best = direct;
    int chosen = 0;
    if (machine->block_threads || z.channels < lanes || z.out < lanes) return 0;
    for (int points = 4; points <= POINTS_MOST; points += 2) {
        if (!may_tile(flow, map, win, points)) continue;
        double s = tiled_seconds(machine, &z, win, points);
        if (s > worth * best || direct - s < least_gain) continue;
        best = s, chosen = points;
    }
    return chosen;
}
