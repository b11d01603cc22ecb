/* SPDX-License-Identifier: Apache-2.0 */
/* Scatters on a GPU, by kernels of compiler/targets/cuda/scatter.in: each update's place becomes a
 * number; updates are put in order by place, equal ones by their own order. Then the last one of a
 * place replaces what is there, or all are combined one by one, as on the host: places and elements
 * of rows are done side by side, so results are the same bit for bit. A place of few updates is
 * done by the threads of its first one; where there are many, a block loads some while it adds up
 * those before. */
#include "runtime/cuda_calls.h"

enum {
    LANES = 8,
    COLUMNS = 5,
    TILE_MOST = 11,
    MANY = 256,
    LONG = 4096,
    SECTOR = 32,
    BLOCKS_EACH = 512
};

typedef struct Updates {
    int64_t n, row, places; /* each has `row` elements for one of so many places */
    int bits, digits;       /* of a place, and its bytes that tell places apart */
    void *place;
    Pairs pairs;
} Updates;

/* The largest place stands for those that are out of range. */
static Updates updates_in(int64_t n, int64_t row, int64_t places, Room *r) {
    Updates u = {.n = n, .row = row, .places = places, .bits = 64, .digits = 8};
    while (u.digits > 1 && places <= (INT64_C(1) << 8 * (u.digits - 1)) - 1) u.digits--;
    if (u.digits <= 4) u.bits = 32;
    u.place = cuda_take(r, n, u.bits / 8);
    u.pairs = cuda_take_pairs(r, n, 1);
    return u;
}

/* As scatter.in says. */
typedef struct Coordinate {
    int64_t column, stride, extent, room, step;
} Coordinate;

static void find_places(weir_frame *f, const weir_call *c, const Updates *u, int64_t by,
                        const Coordinate *k, int dims, int32_t self) {
    enum { WORDS = 9, EACH = sizeof *k / 8 };
    const weir_tensor *at = &c->in[1];
    uint64_t words[WORDS + EACH * WEIR_RANK_MAX] = {
        word(at->data),    at->dtype == WEIR_I32 ? 32 : 64,
        (uint64_t)by,      (uint64_t)u->n,
        (uint64_t)dims,    word(u->place),
        (uint64_t)u->bits, word(f->fault),
        (uint64_t)self};
    __builtin_memcpy(words + WORDS, k, (size_t)dims * sizeof *k);
    int64_t wanted = parts_of(u->n, CUDA_THREADS);
    cuda_launch(f, WEIR_TOOL_PLACES, wanted < CUDA_BLOCKS ? wanted : CUDA_BLOCKS, words,
                sizeof words / sizeof *words);
}

static int log_of(int64_t n, int most) {
    int log = 0;
    while (log < most && INT64_C(1) << log < n) log++;
    return log;
}

/* Truth values stay 0 and 1: their sum is the larger, their product the smaller. */
static int combine_tool(int64_t *how, int32_t dtype) {
    enum { SUM = 1, PRODUCT, LARGER, SMALLER };
    if (dtype != WEIR_BOOL) return WEIR_TOOL_COMBINE + dtype;
    if (*how == SUM || *how == PRODUCT) *how += LARGER - SUM;
    return WEIR_TOOL_COMBINE + WEIR_U8;
}

/* Blocks for places of many updates: 1 << width columns each, `turns` blocks for these. */
typedef struct Many {
    int width;
    int64_t turns, blocks;
} Many;

static Many many_of(int64_t row, int width) {
    int64_t groups = parts_of(row, INT64_C(1) << width);
    int64_t turns = groups < BLOCKS_EACH ? BLOCKS_EACH / groups : 1;
    return (Many){width, turns, groups * turns};
}

/* How blocks share updates, as scatter.in says. */
typedef struct Sharing {
    int lanes, tile;
    int64_t few;
    Many many, longs;
} Sharing;

/* A block's updates are at least such that all its threads have work if each is a place's first,
 * and more where the others have blocks enough. Of very many, columns fill what is loaded at once.
 */
static Sharing sharing_of(const Updates *u, int64_t bytes) {
    Sharing s = {.lanes = log_of(parts_of(u->row, 4), LANES)};
    int64_t columns = parts_of(u->row, INT64_C(4) << s.lanes);
    int wide = log_of(u->row, COLUMNS), narrow = log_of(u->row, log_of(SECTOR / bytes, LANES));
    s.tile = LANES - s.lanes;
    while (s.tile < TILE_MOST && s.tile < TILE_MOST + 1 - s.lanes &&
           (u->n >> (s.tile + 1)) * columns >= BLOCKS_EACH)
        s.tile++;
    s.few = parts_of(u->n, INT64_C(1) << s.tile) * columns;
    if (s.few > CUDA_BLOCKS) s.few = CUDA_BLOCKS;
    if (u->n > MANY) s.many = many_of(u->row, wide);
    if (u->n > LONG && narrow < wide) s.longs = many_of(u->row, narrow);
    return s;
}

static void put_updates(weir_frame *f, const weir_call *c, Updates *u, int64_t how) {
    const weir_tensor *to = &c->out[0];
    Slices places = cuda_row_of(u->place, u->bits == 32 ? WEIR_U32 : WEIR_U64, u->n);
    Sharing s = sharing_of(u, weir_bits(to->dtype) / 8);
    uint64_t none = u->bits == 32 ? UINT32_MAX : UINT64_MAX;
    int combine = combine_tool(&how, to->dtype);
    cuda_sort(f, &places, 1, u->n, u->digits, &u->pairs);
    if (how)
        RUN_TILES(combine, s.longs.blocks + s.many.blocks + s.few, word(to->data),
                  word(u->pairs.now), (uint64_t)u->n, (uint64_t)u->row, word(c->in[2].data), none,
                  (uint64_t)s.lanes, (uint64_t)s.tile, (uint64_t)how, (uint64_t)s.longs.width,
                  (uint64_t)s.longs.turns, (uint64_t)s.longs.blocks, (uint64_t)s.many.width,
                  (uint64_t)s.many.turns, (uint64_t)s.many.blocks);
    else
        RUN_TILES(WEIR_TOOL_REPLACE, s.few, word(to->data), word(u->pairs.now), (uint64_t)u->n,
                  (uint64_t)u->row, word(c->in[2].data), none, (uint64_t)s.lanes, (uint64_t)s.tile,
                  (uint64_t)weir_bits(to->dtype));
}

/* The data are copied, or zeros without any; room for n updates, or none (`at` NULL): there is
 * nothing to write. */
static Room begin_scatter(weir_frame *f, weir_call *c, int64_t how, int64_t n, int64_t scratch) {
    const weir_tensor *to = &c->out[0];
    const CudaState *d = f->instance->device;
    int64_t bytes = cuda_tensor_bytes(to);
    if (how && to->dtype > WEIR_BF16) {
        c->status = WEIR_E_ARGUMENT;
        c->reason = "a scatter cannot combine elements of this type";
        return (Room){0};
    }
    if (c->in[0].data)
        weir_device_copy(f, to->data, c->in[0].data, bytes);
    else if (bytes && !f->status)
        cuda_note(f, d->shared->cu.fill(cuda_address(to->data), 0, (size_t)bytes, d->on),
                  "clearing", NULL);
    return n && bytes ? cuda_room_of(f, c, scratch) : (Room){0};
}

static Updates element_updates(const weir_call *c, Room *r) {
    return updates_in(weir_tensor_count(&c->in[1]), 1, weir_tensor_count(&c->out[0]), r);
}

int64_t weir_device_scatter_elements_scratch(const weir_call *c) {
    Room r = {0};
    element_updates(c, &r);
    return r.bytes;
}

void weir_device_scatter_elements(weir_frame *f, weir_call *c, int32_t self) {
    const weir_tensor *data = &c->out[0], *at = &c->in[1];
    int64_t n = weir_tensor_count(at), stride = n, step = weir_tensor_count(data);
    int dims = c->attr[0] < 0 ? 1 : data->rank; /* below 0: all tensors are one row */
    Coordinate k[WEIR_RANK_MAX];
    Room r = begin_scatter(f, c, c->attr[1], n, weir_device_scatter_elements_scratch(c));
    Updates u = element_updates(c, &r);
    if (!r.at) return;
    k[0] = (Coordinate){0, 1, 1, step, 1};
    for (int d = 0; c->attr[0] >= 0 && d < dims; d++) {
        stride /= at->dims[d];
        step /= data->dims[d];
        k[d] = (Coordinate){d == c->attr[0] ? 0 : -1, stride, at->dims[d], data->dims[d], step};
    }
    find_places(f, c, &u, 1, k, dims, self);
    put_updates(f, c, &u, c->attr[1]);
}

static Updates nd_updates(const weir_call *c, Room *r) {
    const weir_tensor *data = &c->out[0], *at = &c->in[1];
    int64_t depth = at->dims[at->rank - 1], row = 1, places = 1;
    for (int64_t d = 0; d < data->rank; d++) *(d < depth ? &places : &row) *= data->dims[d];
    return updates_in(depth ? weir_tensor_count(at) / depth : 0, row, places, r);
}

int64_t weir_device_scatter_nd_scratch(const weir_call *c) {
    Room r = {0};
    nd_updates(c, &r);
    return r.bytes;
}

void weir_device_scatter_nd(weir_frame *f, weir_call *c, int32_t self) {
    const weir_tensor *data = &c->out[0], *at = &c->in[1];
    int64_t depth = at->dims[at->rank - 1], step;
    Coordinate k[WEIR_RANK_MAX];
    Room r = {0};
    int64_t n = nd_updates(c, &r).n;
    r = begin_scatter(f, c, c->attr[0], n, r.bytes);
    r.bytes = 0;
    Updates u = nd_updates(c, &r);
    if (!r.at) return;
    step = u.places;
    for (int64_t d = 0; d < depth; d++) {
        step /= data->dims[d];
        k[d] = (Coordinate){d, 1, 1, data->dims[d], step};
    }
    find_places(f, c, &u, depth, k, (int)depth, self);
    put_updates(f, c, &u, c->attr[0]);
}
