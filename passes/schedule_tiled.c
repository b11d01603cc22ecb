/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with register tiles: contractions, convolutions, pools, sums, with their epilogues.
 *
 * schedule_tile.c chooses the tile. Outer loops go over panels of the lane dim first when the
 * operand that has it is too large for the inner cache, else over the other dims first. Where both
 * operands are too large, a block of rows stays in the inner cache while all panels pass. */
#include <math.h>
#include <string.h>

#include "passes/margin.h"
#include "passes/schedule_tiled.h"

/* What the last block has less than the others is at most so small a part of all rows. */
enum { UNEVEN_PART = 32 };

/* Bytes of p's largest operand that has the lane dim: what a panel loop wants to keep close. */
static double lane_operand_bytes(const Tiled *t) {
    double most = 0;
    for (int v = 0; v < t->p->body.val.n && t->lane >= 0; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ || !access_uses(t->p, &val->read, t->lane)) continue;
        double bytes = read_bytes(t->s->flow, t->p, &val->read);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Bytes that the largest read of weights meets. */
static double most_bytes(const Tiled *t) {
    double most = 0;
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ || t->s->flow->cont.at[val->read.cont].kind != CONT_PARAM)
            continue;
        double bytes = read_bytes(t->s->flow, t->p, &val->read);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Where sums run in lanes nothing is packed: dims that share the largest operand go inside those
 * that walk over it, so that it is read from afar once. */
static void share_largest(const Tiled *t, int *order, int n) {
    const Access *largest = NULL;
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ) continue;
        if (!largest ||
            read_bytes(t->s->flow, t->p, &val->read) > read_bytes(t->s->flow, t->p, largest))
            largest = &val->read;
    }
    int inner[MAP_DIMS], left = 0, m = 0;
    for (int i = 0; i < n; i++) {
        bool walks = !largest;
        for (int k = 0; largest && k < largest->rank; k++)
            walks |= dim_uses(largest->at[k], t->p->dim.at[order[i]].sym);
        *(walks ? &order[left++] : &inner[m++]) = order[i];
    }
    for (int i = 0; i < m; i++) order[left++] = inner[i];
}

static bool is_row(const Tiled *t, int d) {
    return d == t->row[0] || d == t->row[1];
}

/* Does the lane dim walk through memory, where only rows read its operand again? */
static bool lane_walks(const Tiled *t) {
    const Access *to = &t->p->write.at[0].to[0];
    if (access_stride(t->s->flow, t->p, to, t->lane, 1) != 1) return false;
    for (int d = 0; d < t->p->dim.n; d++)
        if (tiled_output(t, d) && d != t->lane && !is_row(t, d) && tiled_shares_lanes(t, d))
            return false;
    return true;
}

/* Do neighbours along dim d write to one line of the cache, though lanes run along another dim?
 * They do so one after the other, on one thread: others would take the line away. */
static bool shares_lines(const Tiled *t, int d) {
    enum { LINE_BITS = 512, PAIR = 2 };
    if (t->lane < 0 || !tiled_output(t, t->lane) || d == t->lane || is_row(t, d)) return false;
    const Access *to = &t->root->write.at[0].to[0];
    int64_t step = access_stride(t->s->flow, t->root, to, t->root_of[d], PAIR);
    return step > 0 && step < LINE_BITS / dtype_bits(t->s->flow->cont.at[to->cont].type);
}

/* Are all panels near while rows pass, and rows of results in one piece? Threads that part panels
 * would each write a part of every row, of a few lines: the other's are fetched with them. Measured
 * on Zen 4, two threads, 64 columns: 0.2 of the time with 3 terms, 0.7 with 16, the same with 64.
 */
static bool rows_first(const Tiled *t) {
    double near = (double)t->s->env->machine->level[0].bytes / 2;
    const Access *to = &t->root->write.at[0].to[0];
    return t->row[0] >= 0 && lane_operand_bytes(t) <= near &&
           access_stride(t->s->flow, t->root, to, t->root_of[t->lane], 1) == 1;
}

/* Output dims, outermost first: those that are no rows, the lane dim, rows, those that share lines.
 * The lane dim stands first where a panel of its operand is too large to be read again for each of
 * the others, behind rows where panels are few and small. Where it walks, it stands inside of all
 * that do not read its operand again; these stand as they are stored, so that threads part the
 * result as they part what other maps of its layout make. */
static int tile_order(const Tiled *t, int *order) {
    bool lane_out = t->lane >= 0 && tiled_output(t, t->lane), walks = lane_out && lane_walks(t);
    double room = (double)t->s->env->machine->level[1].bytes / 2;
    bool first = lane_out && !walks && lane_operand_bytes(t) > room;
    bool last = lane_out && !first && rows_first(t);
    int n = 0, stored[MAP_DIMS];
    storage_order(t->s, t->p, stored);
    if (first) order[n++] = t->lane;
    for (int i = 0; i < t->p->dim.n; i++) {
        int d = walks ? stored[i] : i;
        if (!tiled_output(t, d) || d == t->lane || shares_lines(t, d)) continue;
        if (!is_row(t, d) || (walks && !tiled_shares_lanes(t, d))) order[n++] = d;
    }
    if (lane_out && !first && !last) order[n++] = t->lane;
    for (int i = 1; i >= 0; i--)
        if (t->row[i] >= 0 && (!walks || tiled_shares_lanes(t, t->row[i]))) order[n++] = t->row[i];
    if (last) order[n++] = t->lane;
    for (int d = 0; d < t->p->dim.n; d++)
        if (tiled_output(t, d) && shares_lines(t, d)) order[n++] = d;
    if (!lane_out && t->lane >= 0) share_largest(t, order, n);
    return n;
}

/* Blocks of so many rows along a dim or, where threads would find parts of all rows that are not
 * equal, a few more: whole tiles. */
static int64_t equal_blocks(const Tiled *t, int d, double most) {
    int64_t extent = map_usual(t->s->flow, t->p, d), tile = tiled_size(t, d), rows = extent;
    int64_t block = extent, tiles = (extent + tile - 1) / tile;
    for (int i = 0; i < t->p->dim.n; i++)
        if (tiled_output(t, i) && i != t->lane && i != d) rows *= map_extent(t->p, i, 1);
    for (int64_t parts = (int64_t)ceil((double)extent / most); parts > 0; parts--) {
        block = (tiles + parts - 1) / parts * tile;
        if ((block * parts - extent) * UNEVEN_PART <= rows) break;
    }
    return block;
}

/* Bytes of the largest operand that all panels read, as many as rows behind the lane dim have at
 * one index of the dims in front of it. */
static double rows_bytes_behind(const Tiled *t, const int *order, int lane) {
    double most = 0;
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ || access_uses(t->p, &val->read, t->lane)) continue;
        double bytes = read_bytes(t->s->flow, t->p, &val->read);
        for (int i = 0; i < lane; i++)
            if (access_uses(t->p, &val->read, order[i]))
                bytes /= (double)map_usual(t->s->flow, t->p, order[i]);
        most = fmax(most, bytes);
    }
    return most;
}

/* Rows of a block of those that the run counts: enough to hide that panels come from the next cache
 * for each, few enough that every core has some. Measured on Zen 4, 448 to 256 channels by 1x1:
 * images of 128x96 0.63 of the time, of 56x56 1.04 (in blocks of 296 rows 0.65, 1.00). */
enum { OPEN_BLOCK = 64 };

/* Rows that are all read again for each panel: how many of each dim behind the lane dim, which
 * stands at `lane` of the order, stay in the inner cache meanwhile. False where they all do, or
 * where less is read again if they are not cut. */
static bool cut_blocks(const Tiled *t, const int *order, int n, int lane, int64_t *block) {
    const Machine *machine = t->s->env->machine;
    if (lane == n || t->row[0] < 0 || t->row[1] >= 0) return false;
    double bytes = rows_bytes_behind(t, order, lane), rows = 1;
    for (int i = lane + 1; i < n; i++) rows *= (double)map_usual(t->s->flow, t->p, order[i]);
    double left = rows_near(machine, bytes, rows);
    double columns = (double)map_usual(t->s->flow, t->p, t->lane);
    double panels = ceil(columns / (double)tiled_size(t, t->lane));
    if (rows <= left || rows_again(machine, bytes, rows, panels, lane_operand_bytes(t)) > 0)
        return false;
    if (tiled_rows_open(t)) left = fmin(left, OPEN_BLOCK);
    for (int i = n - 1; i > lane; i--) {
        block[order[i]] = equal_blocks(t, order[i], left);
        left = left < (double)block[order[i]] ? 1 : left / (double)block[order[i]];
    }
    return true;
}

static void tile_dim(const Tiled *t, Line *line, int d, int64_t size) {
    if (map_extent(t->p, d, INT64_MAX) > size)
        line_dim(t->s->flow, line, t->root, t->root_of[d], size);
}

/* Tiles; or, behind what stands in front of panels, blocks of rows, panels for each, and tiles
 * inside of these. */
static void tile_lines(Tiled *t) {
    Flow *flow = t->s->flow;
    int order[MAP_DIMS], n = tile_order(t, order), lane = 0;
    int64_t block[MAP_DIMS];
    while (lane < n && order[lane] != t->lane) lane++;
    bool cut = cut_blocks(t, order, n, lane, block);
    Line outer = {.kind = LINE_TILE, .map = t->pos, .cont = -1}, inner = outer, par;
    for (int i = 0; i < lane; i++) tile_dim(t, &outer, order[i], tiled_size(t, order[i]));
    for (int i = lane + 1; cut && i < n; i++) tile_dim(t, &outer, order[i], block[order[i]]);
    for (int i = lane; i < n; i++) {
        int64_t size = tiled_size(t, order[i]);
        if (!cut || i == lane || block[order[i]] > size)
            tile_dim(t, cut && i > lane ? &inner : &outer, order[i], size);
    }
    if (!outer.narg) return;
    vec_push(flow->arena, &t->kernel->line, outer);
    LineArg *arg = arena_copy(flow->arena, outer.arg, (size_t)outer.narg * sizeof *arg);
    for (int i = 0; i < outer.narg; i++) arg[i].size = 0;
    par = (Line){.kind = LINE_PARALLEL, .map = t->pos, .cont = -1, .narg = outer.narg, .arg = arg};
    if (worth_threads(t->s, t->kernel)) vec_push(flow->arena, &t->kernel->line, par);
    if (inner.narg) vec_push(flow->arena, &t->kernel->line, inner);
}

static void unroll_line(Tiled *t, int pos) {
    const Map *m = pos == t->at ? t->p : t->root;
    bool lane_out = t->lane >= 0 && tiled_output(t, t->lane);
    Line line = {.kind = LINE_UNROLL, .map = pos, .cont = -1};
    for (int d = 0; d < t->p->dim.n; d++) {
        bool row = is_row(t, d);
        bool in_tile = (lane_out && d == t->lane) || (row && (pos == t->at || !t->matrix));
        if (pos == t->at && t->inner[d]) in_tile = map_extent(t->p, d, 1) > 1;
        if (in_tile) line_dim(t->s->flow, &line, m, pos == t->at ? d : t->root_of[d], 0);
        if (pos == t->at && (d == t->group || d == t->step)) line_dim(t->s->flow, &line, m, d, 0);
    }
    if (line.narg) vec_push(t->s->flow->arena, &t->kernel->line, line);
}

/* Does one tile alone read each panel? */
static bool meets_once(const Tiled *t) {
    bool once = true;
    for (int d = 0; d < t->p->dim.n; d++)
        if (tiled_output(t, d) && d != t->lane && tiled_shares_lanes(t, d))
            once &= map_usual(t->s->flow, t->p, d) <= tiled_size(t, d);
    return once;
}

/* Weights of which a run reads more than the inner cache holds come from afar again in the next
 * one: they are fetched a panel ahead; but in a loop the part of them that a core reads, the same
 * each time, stays there. Panels that are met once are a stream, which processors fetch ahead by
 * themselves with more lines on their way than a core may ask for (measured on Zen 4, 1 to 4 rows:
 * 340 MB of weights come at 30 GB/s so, asked for at 22); by steps on tiles that was not measured.
 */
static void prefetch_line(Tiled *t) {
    const Machine *m = t->s->env->machine;
    bool repeats = t->s->repeats[t->kernel->map.at[t->at]];
    double room = (double)m->level[1].bytes, most = most_bytes(t);
    bool stays = repeats && lane_operand_bytes(t) <= room * m->cores;
    if (stays || t->s->weights <= room || (!t->matrix && meets_once(t))) return;
    for (int v = 0; t->lane >= 0 && tiled_output(t, t->lane) && v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        const Cont *cont = val->kind == VAL_READ ? &t->s->flow->cont.at[val->read.cont] : NULL;
        if (!cont || cont->kind != CONT_PARAM) continue;
        if (read_bytes(t->s->flow, t->p, &val->read) < most) continue;
        int64_t step = access_stride(t->s->flow, t->p, &val->read, t->lane, lanes_of(t->s));
        if (!cont->layout || step != (t->group >= 0 ? t->group_size : 1)) continue;
        Line *line = kernel_line(t->s->flow, t->kernel, LINE_PREFETCH, t->at);
        line->cont = val->read.cont;
        if (t->matrix) line_dim(t->s->flow, line, t->p, t->group, t->groups * t->group_size);
    }
}

/* Is it what results need of a container besides their sums, in rows that lie apart, of which a
 * tile has a few lines each? No processor asks for these by itself. */
static bool apart_in_tile(const Tiled *t, const Val *val) {
    const Flow *flow = t->s->flow;
    int lane = t->root_of[t->lane], row = t->root_of[t->row[0]];
    int64_t width = tiled_size(t, t->lane);
    if (val->kind != VAL_READ || val->has_else || access_by_value(t->root, &val->read))
        return false;
    return val->read.cont != t->p->write.at[0].to[0].cont &&
           access_stride(flow, t->root, &val->read, lane, width) == 1 &&
           access_stride(flow, t->root, &val->read, row, 1) > width;
}

/* Is it more than the inner cache keeps beside other things? */
static bool comes_from_afar(const Tiled *t, int cont) {
    const Cont *c = &t->s->flow->cont.at[cont];
    double bytes = (double)dtype_bits(c->type) / 8;
    for (int k = 0; k < c->rank; k++) bytes *= (double)usual_extent(t->s->flow, c->shape[k]);
    return bytes > (double)t->s->env->machine->level[1].bytes / 2;
}

/* What lies apart and comes from afar is asked for before the tile is summed. */
static void besides_lines(Tiled *t) {
    enum { TERMS_LEAST = 64 };
    Scheduling *s = t->s;
    Contraction c = map_contraction(s->flow, t->p);
    if (t->p == t->root || t->lane < 0 || !tiled_output(t, t->lane) || t->row[0] < 0) return;
    if (!c.is || contraction_usual(s->flow, t->p, &c, ROLE_K) < TERMS_LEAST) return;
    for (int v = 0; v < t->root->body.val.n; v++) {
        const Val *val = &t->root->body.val.at[v];
        bool asked = false;
        if (!apart_in_tile(t, val)) continue;
        for (int i = 0; i < t->kernel->line.n; i++)
            asked |= t->kernel->line.at[i].kind == LINE_PREFETCH &&
                     t->kernel->line.at[i].cont == val->read.cont;
        if (!asked && comes_from_afar(t, val->read.cont))
            kernel_line(s->flow, t->kernel, LINE_PREFETCH, t->pos)->cont = val->read.cont;
    }
}

/* In a loop, weights that the inner cache holds a part of: what tasks read last is there when the
 * next iteration begins with it. */
static void alternate_line(const Tiled *t) {
    double room = (double)t->s->env->machine->level[1].bytes;
    bool parallel = false;
    for (int i = 0; i < t->kernel->line.n; i++)
        parallel |= t->kernel->line.at[i].kind == LINE_PARALLEL;
    if (parallel && t->s->repeats[t->kernel->map.at[t->at]] && most_bytes(t) > room / 2)
        kernel_line(t->s->flow, t->kernel, LINE_ALTERNATE, t->pos);
}

/* Where a part of the taps is unrolled, they run inside the others. */
static bool part_line(Tiled *t) {
    if (!tiled_unrolls_window(t) || !tiled_unrolls_part(t)) return false;
    Line *line = kernel_line(t->s->flow, t->kernel, LINE_REDUCE, t->at);
    for (int unrolled = 0; unrolled < 2; unrolled++)
        for (int d = 0; d < t->p->dim.n; d++)
            if (map_reduces(t->p, d) && tiled_unrolls_tap(t, d) == unrolled)
                line_dim(t->s->flow, line, t->p, d, 0);
    return true;
}

/* Reduced dims whose storage is blocked run block-wise: blocks, the other dims, inside the block.
 * The innermost loop goes in steps that stand side by side, where there are any. */
static void reduce_line(Tiled *t) {
    int64_t step = t->matrix ? t->groups * t->group_size : lanes_of(t->s);
    int blocked = tiled_blocked(t, step);
    if (part_line(t) || (blocked < 0 && t->group < 0 && t->step < 0)) return;
    Line *line = kernel_line(t->s->flow, t->kernel, LINE_REDUCE, t->at);
    if (blocked >= 0) line_dim(t->s->flow, line, t->p, blocked, step);
    for (int d = 0; d < t->p->dim.n; d++)
        if (map_reduces(t->p, d) && d != blocked && d != t->group && d != t->step)
            line_dim(t->s->flow, line, t->p, d, 0);
    if (t->step >= 0 && t->steps < t->innermost)
        line_dim(t->s->flow, line, t->p, t->step, t->steps);
    int last = blocked >= 0 ? blocked : t->step;
    if (last >= 0 && last != t->group) line_dim(t->s->flow, line, t->p, last, 0);
    if (t->group < 0) return;
    if (t->chunk) line_dim(t->s->flow, line, t->p, t->group, t->chunk);
    if (t->matrix && blocked != t->group) line_dim(t->s->flow, line, t->p, t->group, step);
    line_dim(t->s->flow, line, t->p, t->group, t->group_size);
    line_dim(t->s->flow, line, t->p, t->group, 0);
}

/* Where products have a scale for each block beside two factors, it multiplies the blocks' sums,
 * one after the other. Other long sums run in blocks. */
static void block_lines(Tiled *t) {
    const Combine *c = t->p->write.at[0].combine;
    bool sums = c->simple == P_ADD && dtype_is_float(c->type[0]) && c->nstate == 1;
    if (t->lane < 0 || !tiled_output(t, t->lane) || t->s->env->math == MATH_STRICT) sums = false;
    int d = sums ? factor_dim(t->p, t->group) : -1, at = t->at;
    if (d >= 0) {
        line_dim(t->s->flow, kernel_line(t->s->flow, t->kernel, LINE_PARTIAL, at), t->p, d, 1);
        line_dim(t->s->flow, kernel_line(t->s->flow, t->kernel, LINE_FACTOR, at), t->p, d, 0);
        return;
    }
    partial_line(t->s, t->kernel, t->at, t->lane, SUM_BLOCK);
}

/* Is d a loop over taps that lie apart, over an image of any size? Of a small one most meet margins
 * alone. Zero times infinity is lost, so strict mathematics skips nothing. */
static bool may_skip(const Tiled *t, int d) {
    MarginRead r;
    if (t->s->env->math == MATH_STRICT) return false;
    bool unrolled = tiled_unrolls_window(t) && tiled_unrolls_tap(t, d);
    if (!map_reduces(t->p, d) || unrolled || d == t->step || d == t->group) return false;
    return margin_read(t->s->flow, t->p, d, &r) && r.apart > r.step &&
           !dim_is_const(t->s->flow->cont.at[r.val->read.cont].shape[r.at], NULL);
}

static void skip_line(Tiled *t) {
    Line line = {.kind = LINE_SKIP, .map = t->at, .cont = -1};
    for (int d = 0; d < t->p->dim.n; d++)
        if (may_skip(t, d)) line_dim(t->s->flow, &line, t->p, d, 0);
    if (line.narg) vec_push(t->s->flow->arena, &t->kernel->line, line);
}

static void unroll_window(Tiled *t) {
    if (!tiled_unrolls_window(t)) return;
    Line line = {.kind = LINE_UNROLL, .map = t->at, .cont = -1};
    for (int d = 0; d < t->p->dim.n; d++)
        if (d != t->group && tiled_unrolls_tap(t, d)) line_dim(t->s->flow, &line, t->p, d, 0);
    if (line.narg) vec_push(t->s->flow->arena, &t->kernel->line, line);
}

static bool is_tiled(const Tiled *t, int root_dim) {
    bool tiled = false;
    for (int i = 0; i < t->kernel->line.n; i++) {
        const Line *line = &t->kernel->line.at[i];
        for (int k = 0; line->kind == LINE_TILE && line->map == t->pos && k < line->narg; k++)
            tiled |= !strcmp(line->arg[k].dim, dim_sym_name(t->root->dim.at[root_dim].sym));
    }
    return tiled;
}

/* Do the results of dim d take parts of their own of the container? Windows along lanes take one
 * strip after each other. */
static bool takes_parts(const Tiled *t, int cont, int d) {
    for (int v = 0; v < t->p->body.val.n; v++) {
        const Val *val = &t->p->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont != cont) continue;
        if (access_slides(t->p, &val->read)) return d != t->lane;
        if (access_uses(t->p, &val->read, d)) return true;
    }
    return false;
}

/* A map in front of the reduction makes a strip of what tiles along the lane dim read after each
 * other, or what those tiles read that share it. */
static void strip_lines(Tiled *t, int pos) {
    Scheduling *s = t->s;
    const Map *m = s->flow->map.at[t->kernel->map.at[pos]];
    int cont = m->write.at[0].to[0].cont;
    bool allowed[MAP_DIMS];
    for (int d = 0; d < m->dim.n; d++) allowed[d] = true;
    int lane = choose_lanes(s, m, allowed);
    if (lane >= 0) vector_line(s, t->kernel, pos, lane);
    Line *at = kernel_line(s->flow, t->kernel, LINE_AT, pos);
    for (int d = 0; d < t->p->dim.n; d++)
        if (tiled_output(t, d) && is_tiled(t, t->root_of[d]) && takes_parts(t, cont, d))
            line_dim(s->flow, at, t->root, t->root_of[d], 0);
    kernel_keep(s->flow, t->kernel, pos, cont, KEEP_SCRATCH);
}

/* Does the root write (what the caller owns, say) along rows, and far apart along lanes? Then the
 * sums go to a small tile, which is turned in registers, or the root's lanes run along its rows. */
static bool turns(const Tiled *t) {
    if (t->p == t->root || t->lane < 0 || !tiled_output(t, t->lane) || t->row[0] < 0) return false;
    if (t->inners > 1 || t->root->write.n != 1 || (tiled_rows_open(t) && !t->matrix)) return false;
    const Flow *flow = t->s->flow;
    int lanes = lanes_of(t->s), lane = t->root_of[t->lane], row = t->root_of[t->row[0]];
    const Access *to = &t->root->write.at[0].to[0];
    int sums = t->p->write.at[0].to[0].cont;
    for (int v = 0; v < t->root->body.val.n; v++) {
        const Val *val = &t->root->body.val.at[v];
        if (val->kind != VAL_READ || val->read.cont == sums) continue;
        int64_t step = access_stride(flow, t->root, &val->read, row, lanes);
        if (step != 0 && step != 1) return false;
    }
    return access_stride(flow, t->root, to, row, lanes) == 1 &&
           access_stride(flow, t->root, to, lane, lanes) > lanes;
}

/* Does the root read anything but the sums that lies along its rows, as what it writes does? */
static bool reads_along_rows(const Tiled *t) {
    int sums = t->p->write.at[0].to[0].cont;
    for (int v = 0; v < t->root->body.val.n; v++) {
        const Val *val = &t->root->body.val.at[v];
        if (val->kind == VAL_READ && val->read.cont != sums &&
            access_stride(t->s->flow, t->root, &val->read, t->root_of[t->row[0]], 1) == 1)
            return true;
    }
    return false;
}

/* Blocks of lanes by rows are turned in registers where there are rows for it and the root computes
 * little, of the sums alone. */
static bool turns_in_registers(const Tiled *t) {
    bool rows = !t->matrix && t->rows[0] >= lanes_of(t->s) / 2;
    return rows && map_prims(t->root) <= TURNED_PRIMS && !reads_along_rows(t);
}

bool schedule_tiled(Scheduling *s, Kernel *kernel, int at) {
    Tiled t = {.s = s, .kernel = kernel, .at = at, .pos = kernel->map.n - 1};
    t.p = s->flow->map.at[kernel->map.at[at]];
    t.root = s->flow->map.at[kernel->map.at[t.pos]];
    if (t.p->write.n != 1 || !strips_alone(s, kernel, at)) return false;
    int cont = t.p->write.at[0].to[0].cont;
    if (t.p != t.root && (t.p->write.at[0].n != 1 || read_outside(s, kernel, cont))) return false;
    if (has_seq(t.p) || has_seq(t.root)) return false;
    for (int d = 0; d < t.p->dim.n; d++)
        if (!map_extent(t.p, d, 1)) return false;
    if (!tiled_choose(&t)) return false;
    tile_lines(&t);
    bool apart = turns(&t), along_rows = apart && !turns_in_registers(&t);
    bool in_tile = apart || t.matrix;
    if (t.p != t.root) kernel_keep(s->flow, kernel, at, cont, in_tile ? KEEP_TILE : KEEP_REG);
    if (t.lane >= 0) vector_line(s, kernel, at, t.lane);
    if (t.p != t.root && t.lane >= 0 && tiled_output(&t, t.lane))
        vector_line(s, kernel, t.pos, t.root_of[along_rows ? t.row[0] : t.lane]);
    unroll_line(&t, at);
    if (t.p != t.root && !along_rows) unroll_line(&t, t.pos);
    reduce_line(&t);
    if (t.matrix && tiled_rows_open(&t))
        kernel_line(s->flow, kernel, LINE_USE, at)->name = t.matrix->name;
    if (!t.matrix) block_lines(&t);
    prefetch_line(&t);
    besides_lines(&t);
    alternate_line(&t);
    unroll_window(&t);
    skip_line(&t);
    for (int q = 0; q < at; q++) strip_lines(&t, q);
    return true;
}
