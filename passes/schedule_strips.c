/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that run in strips (fuse_strips.c): tiles of an image, transformed, multiplied,
 * transformed back.
 *
 * A strip is a few rows of tiles, so few that the elements of its tiles before and after the
 * products stay in the inner cache, or several small images: all tiles of these share what is read
 * of the weights. In a strip, first all input tiles; then for each element of a tile a product of
 * matrices, in register tiles of panels and rows (rows are tiles of the strip); then tile by tile,
 * a vector of channels at a time, the way back and the epilogue. */
#include <math.h>
#include <string.h>

#include "passes/schedule.h"

enum { STRIP_MAPS = 4, STRIP_WAYS = 12, MOST_UNROLLED = 16, ROW_UNROLLED = 48 };
/* Images whose size the run gives: a strip is good for the usual one (224 pixels) and for others,
 * by these parts of it (128, 256, 320, 384, 512); of the usual one, for several, too. */
static const double SIZES[] = {1, 1, 4 / 7.0, 8 / 7.0, 10 / 7.0, 12 / 7.0, 16 / 7.0};
enum { SIZES_TRIED = sizeof SIZES / sizeof *SIZES, BATCH = 1, COLUMNS_LEAST = 4 };
/* Of register tiles, measured on Zen 4: sums of vectors that keep the units busy, rows' time until
 * one is begun and ended, of what sums that leave registers after every 16 terms cost. */
static const double BUSY = 8, BEGUN = 0.2, STORED = 1.1;
static const double UNEVEN = 1.06; /* the last strip is code of its own, and shorter */
static const double AGAIN = 0.25;  /* of what the second cache does not hold comes again in time */

/* Of a strip: rows and columns of tiles, images; of a register tile: residues, too. */
typedef struct Strip {
    int64_t row[2], images, residue[2];
} Strip;

/* A strip, its products' register tile, the channels that are made at a time; seconds. */
typedef struct Choice {
    Strip strip, tile;
    int64_t channels;
    double seconds;
} Choice;

typedef struct StripsPlan {
    Scheduling *s;
    Kernel *kernel;
    const Map *map[STRIP_MAPS];
    Contraction roles; /* of the products */
    int first;         /* of the following: 0, or 1 where tiles lie along one dim alone */
    int image[2];      /* dims of the root that are cut into tiles ... */
    int64_t side[2];   /* ... of so many rows and columns, ... */
    int64_t apart[2];  /* ... which lie so far apart, ... */
    int64_t around[2]; /* ... made of so many elements more ... */
    int row[2];        /* ... and the dims of the products that count them ... */
    int residue[2];    /* ... and, where they lie apart, their residues; or -1 */
    int channel, lane; /* the root's dim that is stored last, and the products' */
    int batch[2];      /* dims of the root and the products that count images, or -1 */
    double elements, in, out, images;
    VEC(Strip) whole; /* the image, or all of them: of each size that counts */
    Choice best;
    int64_t vectors; /* of a register tile */
    int64_t held;    /* its rows whose sums registers hold */
    int64_t beside;  /* as many so that what their blocks are added to stays there, too, or 0 */
} StripsPlan;

/* Rows of a tile that lie apart: the index at which `read` has the residue of the root's dim d, or
 * -1. */
static int residue_index(const StripsPlan *p, const Access *read, int d, int64_t *apart) {
    const Cont *c = &p->s->flow->cont.at[read->cont];
    const Access *to = &p->map[2]->write.at[0].to[0];
    for (int l = 0; l < read->rank; l++)
        if (access_dim(p->map[2], to, l) >= 0 && dim_is_const(c->shape[l], apart) && *apart > 1 &&
            read->at[l] == dim_mod(p->s->flow->ctx, p->map[3]->dim.at[d].sym, c->shape[l]))
            return l;
    *apart = 1;
    return -1;
}

/* `index` is that of `row` within a tile of so many: the number of the tile, else NULL. An image
 * that is one tile has no quotient. */
static Dim tile_number(Ctx *ctx, Dim row, Dim index, Dim side) {
    if (index == dim_mod(ctx, row, side)) return dim_div(ctx, row, side);
    return index == row ? dim_const(ctx, 0) : NULL;
}

/* The index at which `read` has the number of a tile; one that no earlier dim has taken. */
static bool find_row(StripsPlan *p, const Access *read, Dim number, int n) {
    const Access *to = &p->map[2]->write.at[0].to[0];
    for (int l = 0; l < read->rank; l++) {
        int d = read->at[l] == number ? access_dim(p->map[2], to, l) : -1;
        if (d < 0 || (n && p->row[0] == d)) continue;
        p->row[n] = d;
        return true;
    }
    return false;
}

/* What was found first is the second: tiles are one row. */
static void one_dim(StripsPlan *p) {
    p->first = 1;
    p->image[1] = p->image[0], p->row[1] = p->row[0], p->residue[1] = p->residue[0];
    p->side[1] = p->side[0], p->apart[1] = p->apart[0], p->around[1] = p->around[0];
    p->image[0] = p->row[0] = p->residue[0] = -1;
    p->side[0] = p->apart[0] = 1, p->around[0] = 0;
}

/* The dims of the root by which it reads tiles: i%side and i/side in two indices of one read, or
 * with rows d apart i/d%side, i/d/side and i%d in three. What writes the tiles has a number at the
 * first of these. */
static bool find_image(StripsPlan *p, const Val *val) {
    Ctx *ctx = p->s->flow->ctx;
    const Map *root = p->map[3];
    const Cont *c = &p->s->flow->cont.at[val->read.cont];
    const Access *to = &p->map[2]->write.at[0].to[0];
    const Cont *products = &p->s->flow->cont.at[p->map[1]->write.at[0].to[0].cont];
    int n = 0;
    for (int k = 0; k < val->read.rank && k < products->rank && n < 2; k++) {
        int64_t elements;
        if (!dim_is_const(to->at[k], NULL) || !dim_is_const(c->shape[k], &p->side[n]) ||
            !dim_is_const(products->shape[k], &elements))
            continue;
        p->around[n] = elements - p->side[n];
        for (int d = 0; d < root->dim.n; d++) {
            int l = residue_index(p, &val->read, d, &p->apart[n]);
            Dim row = dim_div(ctx, root->dim.at[d].sym, dim_const(ctx, p->apart[n]));
            Dim number = tile_number(ctx, row, val->read.at[k], c->shape[k]);
            if (!number || !find_row(p, &val->read, number, n)) continue;
            p->residue[n] = l < 0 ? -1 : access_dim(p->map[2], to, l);
            p->image[n++] = d;
            break;
        }
    }
    p->channel = access_dim(root, &val->read, val->read.rank - 1);
    p->lane = access_dim(p->map[2], to, to->rank - 1);
    if (n == 1) one_dim(p);
    return n > 0 && p->channel >= 0 && p->lane >= 0;
}

static bool counts_rows(const StripsPlan *p, int d) {
    return d == p->row[0] || d == p->row[1] || d == p->residue[0] || d == p->residue[1];
}

/* The root's dim of images by which it reads tiles, and the products'; of several the last. */
static void find_batch(StripsPlan *p, const Access *read) {
    const Access *to = &p->map[2]->write.at[0].to[0];
    p->batch[0] = p->batch[1] = -1;
    for (int k = 0; k < read->rank; k++) {
        int own = access_dim(p->map[3], read, k), d = access_dim(p->map[2], to, k);
        int row = d < 0 ? -1 : map_same_dim(p->map[2], d, p->map[1]);
        if (own < 0 || row < 0 || counts_rows(p, row) || p->roles.role[row] != ROLE_M) continue;
        p->batch[0] = own, p->batch[1] = row;
    }
}

static bool recognize(StripsPlan *p) {
    if (p->kernel->map.n != STRIP_MAPS) return false;
    for (int i = 0; i < STRIP_MAPS; i++) p->map[i] = p->s->flow->map.at[p->kernel->map.at[i]];
    if (!map_straight_line(p->map[0]) || !map_straight_line(p->map[2])) return false;
    int tiles = p->map[2]->write.at[0].to[0].cont;
    const Body *body = &p->map[3]->body;
    p->roles = map_contraction(p->s->flow, p->map[1]);
    for (int v = 0; v < body->val.n; v++) {
        if (body->val.at[v].kind != VAL_READ || body->val.at[v].read.cont != tiles) continue;
        if (!p->roles.is || !find_image(p, &body->val.at[v])) return false;
        p->lane = map_same_dim(p->map[2], p->lane, p->map[1]);
        bool found = p->lane >= 0;
        for (int i = p->first; i < 2; i++) {
            p->row[i] = map_same_dim(p->map[2], p->row[i], p->map[1]);
            if (p->residue[i] >= 0)
                p->residue[i] = map_same_dim(p->map[2], p->residue[i], p->map[1]);
            found &= p->row[i] >= 0;
        }
        find_batch(p, &body->val.at[v].read);
        return found;
    }
    return false;
}

static int64_t parts_of(int64_t extent, int64_t size) {
    return (extent + size - 1) / size;
}

/* Tiles by row and column where images whose size the run gives have so much of the usual one; of
 * images the usual number, or one. */
static Strip whole_of(const StripsPlan *p, double part, bool batch) {
    const Map *m = p->map[1];
    Strip whole = {{1, 1}, 1, {p->apart[0], p->apart[1]}};
    for (int i = p->first; i < 2; i++)
        whole.row[i] = sized_extent(p->s->flow, m->dim.at[p->row[i]].extent, part);
    if (p->batch[1] >= 0)
        whole.images =
            batch ? map_usual(p->s->flow, m, p->batch[1]) : map_extent(m, p->batch[1], 1);
    return whole;
}

/* Extents of the products: elements of a tile, channels in and out, images beside those of a strip,
 * one where the run counts them; tiles and images, of each size that counts. */
static void measure(StripsPlan *p) {
    p->elements = p->in = p->out = p->images = 1;
    p->vectors = tile_width(p->s->env->machine, p->s->flow, p->map[1], p->lane) / lanes_of(p->s);
    for (int d = 0; d < p->map[1]->dim.n; d++) {
        double extent = (double)map_usual(p->s->flow, p->map[1], d);
        if (counts_rows(p, d)) continue;
        if (p->roles.role[d] == ROLE_BATCH) p->elements *= extent;
        if (p->roles.role[d] == ROLE_K) p->in *= extent;
        if (p->roles.role[d] == ROLE_N) p->out *= extent;
        if (p->roles.role[d] == ROLE_M && d != p->batch[1])
            p->images *= (double)map_extent(p->map[1], d, 1);
    }
    for (int by = 0; by < SIZES_TRIED; by++) {
        Strip whole = whole_of(p, SIZES[by], by == BATCH);
        bool seen = false;
        for (int i = 0; i < p->whole.n; i++) seen |= !memcmp(&p->whole.at[i], &whole, sizeof whole);
        if (!seen) vec_push(p->s->flow->arena, &p->whole, whole);
    }
}

/* Streams of elements that lie `step` bytes apart fall on so few sets of a cache that they push one
 * another out? */
static bool collide(double elements, double step) {
    return elements > (double)(cache_sets((int64_t)step) * STRIP_WAYS);
}

/* At most `most`, in nearly equal parts. */
static int64_t at_most(int64_t extent, int64_t most) {
    if (most < 1) most = 1;
    return parts_of(extent, parts_of(extent, most));
}

static int64_t tiles_of(const Strip *s) {
    return s->row[0] * s->row[1] * s->images * s->residue[0] * s->residue[1];
}

/* Terms summed at a time: few where the way back along two dims makes errors larger. */
static int64_t terms_of_block(const StripsPlan *p) {
    return p->first ? SUM_BLOCK : TILE_SUM_BLOCK;
}

/* Rows that a register tile may have; blocks of a few terms are added to others often. */
static void measure_rows(StripsPlan *p) {
    const Machine *m = p->s->env->machine;
    const Map *products = p->map[1];
    bool blocks = p->in > TILE_SUM_BLOCK && terms_of_block(p) == TILE_SUM_BLOCK;
    p->held = rows_held(m, products, p->vectors);
    p->held = rows_apart(p->s->flow, products, p->row[1], p->held);
    p->beside = blocks ? (sum_registers(m, products) - p->vectors) / (2 * p->vectors) : 0;
}

/* A register tile of the products of at most so many rows: columns of a strip, several of its rows
 * if these are short, then several residues, then images. */
static Strip register_tile(const StripsPlan *p, const Strip *strip, int64_t most) {
    Strip t = {{1, 1}, 1, {1, at_most(p->apart[1], most)}};
    t.row[1] = at_most(strip->row[1], most / t.residue[1]);
    if (t.row[1] == strip->row[1]) t.row[0] = at_most(strip->row[0], most / tiles_of(&t));
    t.residue[0] = at_most(p->apart[0], most / tiles_of(&t));
    if (tiles_of(&t) * strip->images == tiles_of(strip))
        t.images = at_most(strip->images, most / tiles_of(&t));
    return t;
}

enum { ALL_LEFT = 1 << 3 };

/* `of` in parts as large as `by`: the size and the number of those that are whole in rows, columns
 * and images, or what is left there, as the bits say. */
static double parts_left(const Strip *of, const Strip *by, int left, Strip *part) {
    const int64_t all[] = {of->row[0], of->row[1], of->images};
    const int64_t most[] = {by->row[0], by->row[1], by->images};
    double count = 1;
    *part = *by;
    int64_t *size[] = {&part->row[0], &part->row[1], &part->images};
    for (int i = 0; i < 3; i++) {
        bool rest = left >> i & 1;
        count *= rest ? all[i] % most[i] > 0 : (double)(all[i] / most[i]);
        *size[i] = rest ? all[i] % most[i] : most[i];
    }
    for (int i = 0; i < 2; i++) count *= (double)parts_of(of->residue[i], by->residue[i]);
    return count;
}

/* Rows that take as long to multiply as a strip's register tiles do: too few do not keep the units
 * busy, sums that leave registers are stored and loaded, the panel comes from the next cache. */
static double busy_rows(const StripsPlan *p, const Strip *strip, const Strip *tile) {
    const Machine *m = p->s->env->machine;
    double panel = 4 * p->in * (double)(p->vectors * lanes_of(p->s)), rows = 0;
    double begin =
        panel > (double)m->level[0].bytes / 2 ? m->fma_flops / 4 / machine_bandwidth(m, panel) : 0;
    for (int left = 0; left < ALL_LEFT; left++) {
        Strip part;
        double count = parts_left(strip, tile, left, &part), each = (double)tiles_of(&part);
        if (p->beside && each > (double)p->beside) each *= STORED;
        rows += count * (fmax(each, BUSY / (double)p->vectors) + BEGUN + begin);
    }
    return rows;
}

/* Are weights asked for ahead? */
static bool asks_ahead(const StripsPlan *p) {
    return 4 * p->elements * p->in * p->out > (double)p->s->env->machine->level[1].bytes / 4;
}

/* Bytes of the image that tiles are made of, each element once: neighbours find theirs again. */
static double image_bytes(const StripsPlan *p, const Strip *tiles) {
    return 4 * p->in * (double)(tiles_of(tiles) * p->side[0] * p->side[1]);
}

/* Seconds of a strip that may be less than a whole one of the choice: products, while weights come
 * from the next cache or later; the image from where it lies; straight-line code at the speed of
 * the cache that holds the elements of a whole one, much slower where these collide. */
static double one_strip(const StripsPlan *p, const Strip *whole, const Strip *strip,
                        const Choice *by) {
    const Machine *m = p->s->env->machine;
    double out = fmin(p->out, (double)by->channels);
    double multiply = 2 * p->elements * busy_rows(p, strip, &by->tile) * p->in * out / m->fma_flops;
    double weights = 4 * p->elements * p->in * out;
    double read = weights / machine_bandwidth(m, weights);
    if (asks_ahead(p)) read = read > multiply ? read - multiply : 0;
    read += image_bytes(p, strip) / machine_bandwidth(m, image_bytes(p, whole));
    double move = 0, part[] = {p->in, out}, around[] = {1, 1};
    double tiles = (double)tiles_of(strip), all = (double)tiles_of(&by->strip);
    double bytes = 4 * p->elements * all * (p->in + out), inner = (double)m->level[1].bytes;
    double beyond = bytes + (weights < inner ? weights : 0) - inner;
    if (beyond > 0) move += beyond * AGAIN / machine_bandwidth(m, 2 * inner);
    for (int i = 0; i < 2; i++)
        around[0] *= 1 + (double)p->around[i] / (double)(strip->row[i] * p->side[i]);
    for (int i = 0; i < 2; i++) {
        double row = (double)scratch_row((int64_t)part[i], lanes_of(p->s));
        bool slow = collide(p->elements, 4 * all * row);
        move += around[i] * (slow ? 6 : 4) * 4 * p->elements * tiles * part[i] /
                machine_bandwidth(m, bytes / 2);
    }
    return multiply + read + move;
}

/* Seconds that the busiest core works on an image's strips, whole ones and what is left (one of the
 * largest is among those it takes), and its share if all were as busy, which is what one core alone
 * takes. */
static double size_seconds(const StripsPlan *p, const Strip *whole, const Choice *by) {
    double all = 0, strips = 0, most = 0, uneven = 1;
    for (int left = 0; left < ALL_LEFT; left++) {
        Strip part;
        double count = parts_left(whole, &by->strip, left, &part);
        if (!(count > 0)) continue;
        double one = one_strip(p, whole, &part, by);
        all += count * one, strips += count, most = fmax(most, one);
        if (left) uneven = UNEVEN;
    }
    double tasks = p->images * strips * ceil(p->out / (double)by->channels);
    double cores = p->s->env->machine->cores, rounds = ceil(tasks / cores), each = all / strips;
    return uneven * (most + (rounds - 1) * each + tasks / cores * each);
}

/* Is it the best so far? All sizes that count alike, by the seconds of one of their tiles. */
static void try_choice(StripsPlan *p, Choice by) {
    by.seconds = 0;
    for (int i = 0; i < p->whole.n; i++) {
        const Strip *whole = &p->whole.at[i];
        by.seconds += size_seconds(p, whole, &by) / (double)tiles_of(whole);
    }
    if (!p->best.channels || by.seconds < p->best.seconds) p->best = by;
}

/* Channels of one of so many parts: whole register tiles, or a vector; 0: there are fewer. */
static int64_t channels_of(const StripsPlan *p, int64_t parts) {
    int64_t lanes = lanes_of(p->s), out = (int64_t)p->out, each = parts_of(out, parts);
    if (parts > 1 && each < lanes) return 0;
    int64_t by = each < p->vectors * lanes ? lanes : p->vectors * lanes;
    return parts_of(each, by) * by;
}

static void try_strip(StripsPlan *p, const Strip *strip) {
    for (int64_t parts = 1; parts <= 4; parts *= 2) {
        int64_t channels = channels_of(p, parts);
        if (!channels) continue;
        try_choice(p, (Choice){*strip, register_tile(p, strip, p->held), channels, 0});
        if (p->beside && p->beside < p->held)
            try_choice(p, (Choice){*strip, register_tile(p, strip, p->beside), channels, 0});
    }
}

/* A few rows and columns of an image, or several images. */
static void choose_strip(StripsPlan *p) {
    const Strip *whole = &p->whole.at[0];
    const Strip batch = whole_of(p, 1, true);
    int64_t most = whole->row[1], least = p->whole.n > 1 ? COLUMNS_LEAST : ROWS_MOST / 2;
    least = parts_of(least, p->apart[1]);
    if (least > most) least = most;
    Strip strip = *whole;
    strip.images = 1;
    for (strip.row[0] = 1; strip.row[0] <= whole->row[0]; strip.row[0]++)
        for (strip.row[1] = least; strip.row[1] <= most; strip.row[1]++) try_strip(p, &strip);
    strip = *whole;
    for (strip.images = 2; strip.images <= batch.images; strip.images++)
        if (at_most(batch.images, strip.images) == strip.images) try_strip(p, &strip);
}

static void strip_line(StripsPlan *p, LineKind kind, int pos) {
    const Map *root = p->map[3];
    Line line = {.kind = kind, .map = pos, .cont = -1};
    bool size = kind != LINE_PARALLEL;
    for (int d = 0; d < root->dim.n; d++)
        if (d != p->image[0] && d != p->image[1] && d != p->channel && map_extent(root, d, 2) > 1)
            line_dim(p->s->flow, &line, root, d,
                     size && d == p->batch[0] ? p->best.strip.images : size);
    if ((double)p->best.channels < p->out)
        line_dim(p->s->flow, &line, root, p->channel, size ? p->best.channels : 0);
    for (int i = p->first; i < 2; i++)
        line_dim(p->s->flow, &line, root, p->image[i],
                 size ? p->side[i] * p->apart[i] * p->best.strip.row[i] : 0);
    vec_push(p->s->flow->arena, &p->kernel->line, line);
}

/* Columns of what is put back together at a time: a tile's; as many tiles' as fill a line of memory
 * where results lie along columns, each channel's far from the next. A line that is written by
 * parts leaves the innermost cache in between where channels lie pages apart. Measured on Zen 4,
 * images of 64 and 60 columns: 0.74 and 0.92 of the time. Of images of any size each number of
 * tiles that is left would be a text of its own. */
static int64_t columns_back(const StripsPlan *p) {
    const Map *root = p->map[3];
    const Access *to = &root->write.at[0].to[0];
    int64_t columns = p->side[1] * p->apart[1], lanes = lanes_of(p->s), most = p->best.strip.row[1];
    int64_t width = map_extent(root, p->image[1], -1);
    if (width < 0) return columns;
    if (width / columns < most) most = width / columns;
    if (access_stride(p->s->flow, root, to, p->image[1], lanes) != 1) return columns;
    int64_t tiles = lanes / columns < most ? lanes / columns : most;
    return columns * (tiles < 1 ? 1 : tiles);
}

static void tile_line(StripsPlan *p, LineKind kind, int pos) {
    Line *line = kernel_line(p->s->flow, p->kernel, kind, pos);
    if (p->best.strip.images > 1) line_dim(p->s->flow, line, p->map[3], p->batch[0], 1);
    line_dim(p->s->flow, line, p->map[3], p->channel, lanes_of(p->s));
    for (int i = p->first; i < 2; i++) {
        int64_t tile = p->side[i] * p->apart[i], size = i ? columns_back(p) : tile;
        if (size < tile * p->best.strip.row[i])
            line_dim(p->s->flow, line, p->map[3], p->image[i], size);
    }
}

/* The products: element by element, panels, rows. */
static void product_lines(StripsPlan *p) {
    const Map *m = p->map[1];
    const Strip t = p->best.tile;
    Flow *flow = p->s->flow;
    int64_t width = p->vectors * lanes_of(p->s);
    int unrolled[5], n = 0; /* beside the lanes */
    Line *tile = kernel_line(flow, p->kernel, LINE_TILE, 1);
    for (int d = 0; d < m->dim.n; d++)
        if (d != p->batch[1] && !counts_rows(p, d) &&
            (p->roles.role[d] == ROLE_BATCH || p->roles.role[d] == ROLE_M))
            line_dim(flow, tile, m, d, 1);
    line_dim(flow, tile, m, p->lane, width);
    if (p->batch[1] >= 0) line_dim(flow, tile, m, p->batch[1], t.images);
    if (t.images > 1) unrolled[n++] = p->batch[1];
    for (int i = 0; i < 2; i++)
        if (p->residue[i] >= 0)
            line_dim(flow, tile, m, unrolled[n++] = p->residue[i], t.residue[i]);
    for (int i = p->first; i < 2; i++) line_dim(flow, tile, m, unrolled[n++] = p->row[i], t.row[i]);
    vector_line(p->s, p->kernel, 1, p->lane);
    const Access *weights = &m->body.val.at[p->roles.b].read;
    if (asks_ahead(p) && flow->cont.at[weights->cont].kind == CONT_PARAM)
        kernel_line(flow, p->kernel, LINE_PREFETCH, 1)->cont = weights->cont;
    Line *unroll = kernel_line(flow, p->kernel, LINE_UNROLL, 1);
    line_dim(flow, unroll, m, p->lane, 0);
    for (int i = 0; i < n; i++) line_dim(flow, unroll, m, unrolled[i], 0);
    int64_t block;
    bool blocks = sum_blocks(m, p->lane, terms_of_block(p), &block) >= 0;
    step_lines(p->s, p->kernel, 1, blocks ? block : -1, p->vectors * tiles_of(&t), unroll);
}

/* The lanes of straight-line code: what it writes last. */
static void code_lanes(StripsPlan *p, int pos) {
    const Access *to = &p->map[pos]->write.at[0].to[0];
    int d = access_dim(p->map[pos], to, to->rank - 1);
    if (d >= 0) vector_line(p->s, p->kernel, pos, d);
}

/* Blocks of channels one after the other, where the image has not all of a pixel's side by side: of
 * many streams at a time those that come from beyond the second cache are not fetched ahead. */
static void channels_first(StripsPlan *p) {
    const Map *m = p->map[0];
    const Access *to = &m->write.at[0].to[0];
    int d = access_dim(m, to, to->rank - 1);
    double inner = (double)p->s->env->machine->level[1].bytes;
    bool apart = false;
    if (image_bytes(p, &p->whole.at[0]) / (double)p->whole.at[0].images < inner / 2) return;
    for (int v = 0; d >= 0 && v < m->body.val.n; v++)
        if (m->body.val.at[v].kind == VAL_READ)
            apart |= access_stride(p->s->flow, m, &m->body.val.at[v].read, d,
                                   map_extent(m, d, INT32_MAX)) != 1;
    if (apart)
        line_dim(p->s->flow, kernel_line(p->s->flow, p->kernel, LINE_TILE, 0), m, d,
                 lanes_of(p->s));
}

bool schedule_strips(Scheduling *s, Kernel *kernel) {
    StripsPlan p = {.s = s, .kernel = kernel};
    if (!recognize(&p)) return false;
    measure(&p);
    measure_rows(&p);
    choose_strip(&p);
    strip_line(&p, LINE_TILE, 3);
    strip_line(&p, LINE_PARALLEL, 3);
    tile_line(&p, LINE_TILE, 3);
    for (int i = 0; i < 2; i++) {
        strip_line(&p, LINE_AT, i);
        kernel_keep(s->flow, kernel, i, p.map[i]->write.at[0].to[0].cont, KEEP_SCRATCH);
    }
    code_lanes(&p, 0);
    channels_first(&p);
    product_lines(&p);
    partial_line(s, kernel, 1, p.lane, terms_of_block(&p));
    tile_line(&p, LINE_AT, 2);
    kernel_keep(s->flow, kernel, 2, p.map[2]->write.at[0].to[0].cont, KEEP_TILE);
    code_lanes(&p, 2);
    vector_line(s, kernel, 3, p.channel);
    Line *unroll = kernel_line(s->flow, kernel, LINE_UNROLL, 3);
    int64_t row = columns_back(&p), all = row * p.side[0] * p.apart[0];
    for (int i = p.first; i < 2; i++)
        if ((i == 1 && row <= ROW_UNROLLED) || all <= MOST_UNROLLED)
            line_dim(s->flow, unroll, p.map[3], p.image[i], 0);
    return true;
}
