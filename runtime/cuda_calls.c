/* SPDX-License-Identifier: Apache-2.0 */
/* Irregular kernels on a GPU: what ir/call.def says, as kernels of compiler/targets/cuda/calls.in
 * that follow one another. Elements are chosen by marks and the sums in front of them; suppression
 * takes a block for each class. cuda_order.c puts elements in order, cuda_scatter.c scatters.
 *
 * Equal elements go by number everywhere, so results are those of the host's functions, bit for
 * bit. Scratch is the device's: the room that the frame has for calls, or more where data decide.
 */
#include "runtime/cuda_calls.h"

enum { TILE = 1024 };

void cuda_launch(weir_frame *f, int tool, int64_t blocks, const uint64_t *arg, size_t n) {
    weir_device_launch(f, f->program->image->tool[tool], blocks, 1, arg, (int32_t)n);
}

void *cuda_take(Room *r, int64_t n, int64_t each) {
    void *at = r->at ? r->at + r->bytes : NULL;
    int64_t bytes;
    if (__builtin_mul_overflow(n, each, &bytes)) bytes = INT64_MAX;
    r->bytes = weir_sum(r->bytes, cuda_rounded(bytes));
    return at;
}

Room cuda_room_of(weir_frame *f, weir_call *c, int64_t need) {
    Room r = {cuda_room(f, need), 0};
    if (f->status || r.at) return r;
    c->status = WEIR_E_MEMORY;
    c->reason = "cannot allocate the GPU's memory for a call";
    return r;
}

/* ---- top-k ----------------------------------------------------------------------------------- */

typedef struct Axis {
    int64_t n, k, outer, inner;
} Axis;

static Axis axis_of(const weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t axis = c->attr[0];
    Axis a = {x->dims[axis], c->out[0].dims[axis], 1, 1};
    for (int64_t d = 0; d < axis; d++) a.outer *= x->dims[d];
    for (int64_t d = axis + 1; d < x->rank; d++) a.inner *= x->dims[d];
    return a;
}

int64_t weir_device_topk_scratch(const weir_call *c) {
    Axis a = axis_of(c);
    Room r = {0};
    cuda_take_pairs(&r, a.n, a.outer * a.inner);
    return r.bytes;
}

void weir_device_topk(weir_frame *f, weir_call *c, int32_t self) {
    (void)self;
    const weir_tensor *x = &c->in[0];
    Axis a = axis_of(c);
    if (a.k > a.n) {
        c->status = WEIR_E_ARGUMENT;
        c->reason = "more elements are asked of top-k than the axis has";
        return;
    }
    int64_t rows = a.outer * a.inner;
    if (rows == 0 || a.k == 0) return;
    Room r = cuda_room_of(f, c, weir_device_topk_scratch(c));
    Pairs p = cuda_take_pairs(&r, a.n, rows);
    if (!r.at) return;
    Slices s = cuda_row_of(x->data, x->dtype, a.n);
    s.flip = c->attr[1];
    s.row_inner = s.step = a.inner;
    s.row_outer = a.n * a.inner;
    cuda_sort(f, &s, rows, a.k, 0, &p);
    RUN(WEIR_TOOL_TOPK, rows * a.k, word(x->data), s.kind[0] & 255, word(p.now), (uint64_t)p.apart,
        (uint64_t)rows, (uint64_t)a.n, (uint64_t)a.k, (uint64_t)a.inner, word(c->out[0].data),
        word(c->out[1].data));
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* n numbers, and their sum behind them; what its kernels need besides. */
typedef struct Marks {
    int64_t *at, *parts, n;
} Marks;

static Marks take_marks(Room *r, int64_t n) {
    Marks m = {.n = n};
    m.at = cuda_take(r, weir_sum(n, 1), 8);
    m.parts = cuda_take(r, weir_sum(parts_of(n, TILE), 1), 8);
    return m;
}

/* Each number becomes the sum of those in front of it. n is not 0. */
static void sum_marks(weir_frame *f, const Marks *m) {
    int64_t parts = parts_of(m->n, TILE);
    RUN_TILES(WEIR_TOOL_SUM_PARTS, parts, word(m->at), (uint64_t)m->n, word(m->parts));
    RUN_TILES(WEIR_TOOL_SUM_ALL, 1, word(m->parts), (uint64_t)parts);
    RUN_TILES(WEIR_TOOL_SUM, parts, word(m->at), (uint64_t)m->n, word(m->parts));
}

/* Reads the sum of all. */
static int64_t count_marks(weir_frame *f, const Marks *m) {
    int64_t count = 0;
    cuda_fetch(f, &count, m->at + m->n, sizeof count);
    return count;
}

/* ---- nonzero --------------------------------------------------------------------------------- */

/* Blocks look at so many elements each, first to count, then to write. */
enum { NONZERO_TILE = 2048 };

int64_t weir_device_nonzero_scratch(const weir_call *c) {
    Room r = {0};
    cuda_take(&r, weir_sum(parts_of(weir_tensor_count(&c->in[0]), NONZERO_TILE), 1), 8);
    return r.bytes;
}

void weir_device_nonzero(weir_frame *f, weir_call *c, int32_t self) {
    (void)self;
    static const uint64_t none = 0;
    enum { WORDS = 9 };
    const weir_tensor *x = &c->in[0];
    int64_t n = weir_tensor_count(x), tiles = parts_of(n, NONZERO_TILE);
    int32_t part = weir_part(x->dtype);
    uint64_t kind[2], zero = weir_key(part, &none, 0), parts = part == x->dtype ? 1 : 2;
    if (n == 0) return;
    Room r = cuda_room_of(f, c, weir_device_nonzero_scratch(c));
    int64_t *before = cuda_take(&r, tiles + 1, 8);
    if (!r.at) return;
    weir_key_kind(part, kind);
    RUN_TILES(WEIR_TOOL_NONZERO_COUNT, tiles, word(x->data), kind[0], kind[1], zero, parts,
              (uint64_t)n, word(before));
    RUN_TILES(WEIR_TOOL_SUM_ALL, 1, word(before), (uint64_t)tiles);
    uint64_t words[WORDS + WEIR_RANK_MAX] = {
        word(x->data),        kind[0],          kind[1], zero, parts, (uint64_t)n, word(before),
        word(c->out[0].data), (uint64_t)x->rank};
    for (int d = 0; d < x->rank; d++) words[WORDS + d] = (uint64_t)x->dims[d];
    cuda_launch(f, WEIR_TOOL_NONZERO, tiles, words, sizeof words / sizeof *words);
    cuda_fetch(f, &c->define[0], before + tiles, sizeof *before);
}

/* ---- unique ---------------------------------------------------------------------------------- */

typedef struct Unique {
    Slices s;
    Pairs pairs;
    Marks heads, place;
    int64_t *first, *start, *group;
} Unique;

/* Complex elements are slices of two. */
static Slices slices_of(const weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t axis = c->attr[0], n = weir_tensor_count(x),
            parts = weir_part(x->dtype) == x->dtype ? 1 : 2;
    Slices s = cuda_row_of(x->data, weir_part(x->dtype), n);
    s.step = s.inner = s.outer = s.length = parts;
    if (axis < 0) return s;
    s.n = x->dims[axis];
    for (int64_t d = axis + 1; d < x->rank; d++) s.inner *= x->dims[d];
    s.step = s.inner;
    s.outer = s.inner * s.n;
    s.length = s.n ? n / s.n * parts : 0;
    if (s.inner == 0) s.inner = 1;
    return s;
}

static Unique unique_in(const weir_call *c, Room *r) {
    Unique u = {.s = slices_of(c)};
    u.pairs = cuda_take_pairs(r, u.s.n, 1);
    u.heads = take_marks(r, u.s.n);
    u.first = cuda_take(r, u.s.n, 8);
    u.start = cuda_take(r, u.s.n, 8);
    u.group = cuda_take(r, u.s.n, 8);
    if (!c->attr[1]) u.place = take_marks(r, u.s.n);
    return u;
}

int64_t weir_device_unique_scratch(const weir_call *c) {
    Room r = {0};
    unique_in(c, &r);
    return r.bytes;
}

/* Slices in order fall into groups, which stand in the order of their first slices if asked to. */
static void find_groups(weir_frame *f, Unique *u) {
    const Slices *s = &u->s;
    uint64_t n = (uint64_t)s->n;
    cuda_sort(f, s, 1, s->n, 0, &u->pairs);
    RUN(WEIR_TOOL_HEADS, s->n, SLICES(s), word(u->pairs.now), word(u->heads.at));
    sum_marks(f, &u->heads);
    RUN(WEIR_TOOL_GROUPS, s->n, word(u->pairs.now), word(u->heads.at), n, word(u->first),
        word(u->start), word(u->group));
    if (!u->place.at) return;
    RUN(WEIR_TOOL_FIRSTS, s->n, word(u->first), word(u->group), n, word(u->place.at));
    sum_marks(f, &u->place);
}

void weir_device_unique(weir_frame *f, weir_call *c, int32_t self) {
    (void)self;
    Room r = {0};
    if (slices_of(c).n == 0) return;
    r = cuda_room_of(f, c, weir_device_unique_scratch(c));
    if (!r.at) return;
    Unique u = unique_in(c, &r);
    const Slices *s = &u.s;
    find_groups(f, &u);
    RUN(WEIR_TOOL_UNIQUE, s->n, word(u.first), word(u.start), word(u.group), word(u.heads.at),
        word(u.place.at), (uint64_t)s->n, word(c->out[1].data), word(c->out[2].data),
        word(c->out[3].data));
    if (c->out[0].data && s->length)
        RUN(WEIR_TOOL_UNIQUE_VALUES, s->n * s->length, SLICES(s), word(u.first), word(u.heads.at),
            word(u.place.at), word(c->out[0].data));
    c->define[0] = count_marks(f, &u.heads);
}

/* ---- suppression ----------------------------------------------------------------------------- */

typedef struct Classes {
    int64_t rows, n, all; /* a row for each batch and class; boxes; both */
    uint32_t *keys;
    Pairs pairs;
    int64_t *kept;
    Marks count;
} Classes;

static Classes classes_in(const weir_call *c, Room *r) {
    Classes k = {.rows = c->in[1].dims[0] * c->in[1].dims[1], .n = c->in[0].dims[1]};
    k.all = weir_tensor_count(&c->in[1]);
    k.keys = cuda_take(r, k.all, 4);
    k.pairs = cuda_take_pairs(r, k.n, k.rows);
    k.kept = cuda_take(r, k.all, 8);
    k.count = take_marks(r, k.rows);
    return k;
}

int64_t weir_device_nms_scratch(const weir_call *c) {
    Room r = {0};
    classes_in(c, &r);
    return r.bytes;
}

static const void *operand(const weir_call *c, int i) {
    return i < c->nin ? c->in[i].data : NULL;
}

void weir_device_nms(weir_frame *f, weir_call *c, int32_t self) {
    (void)self;
    uint64_t classes = (uint64_t)c->in[1].dims[1];
    if (weir_tensor_count(&c->in[1]) == 0) return;
    Room r = cuda_room_of(f, c, weir_device_nms_scratch(c));
    Classes k = classes_in(c, &r);
    if (!r.at) return;
    RUN(WEIR_TOOL_NMS_KEYS, k.all, word(c->in[1].data), (uint64_t)k.all, word(operand(c, 4)),
        word(k.keys));
    Slices s = cuda_row_of(k.keys, WEIR_U32, k.n);
    s.flip = 1;
    cuda_sort(f, &s, k.rows, k.n, 0, &k.pairs);
    RUN_TILES(WEIR_TOOL_NMS, k.rows, word(c->in[0].data), word(k.pairs.now), (uint64_t)k.n, classes,
              (uint64_t)c->attr[0], word(operand(c, 2)), word(operand(c, 3)), word(k.kept),
              word(k.count.at));
    sum_marks(f, &k.count);
    RUN(WEIR_TOOL_NMS_ROWS, k.all, word(k.kept), word(k.count.at), (uint64_t)k.rows, (uint64_t)k.n,
        classes, word(c->out[0].data));
    c->define[0] = count_marks(f, &k.count);
}

/* ---- tables ---------------------------------------------------------------------------------- */

int64_t weir_device_lookup_scratch(const weir_call *c) {
    (void)c;
    return 0;
}

void weir_device_lookup(weir_frame *f, weir_call *c, int32_t self) {
    (void)self;
    const weir_tensor *x = &c->in[0], *keys = &c->in[1];
    int64_t n = weir_tensor_count(x);
    uint64_t kind[2];
    weir_key_kind(x->dtype, kind);
    RUN(WEIR_TOOL_LOOKUP, n, word(x->data), word(keys->data), word(c->in[2].data), kind[0], kind[1],
        (uint64_t)n, (uint64_t)keys->dims[0], (uint64_t)c->in[2].dims[0], word(c->out[0].data));
}

int64_t weir_device_trees_scratch(const weir_call *c) {
    Room r = {0};
    cuda_take(&r, weir_tensor_count(&c->out[0]), 16);
    return r.bytes;
}

void weir_device_trees(weir_frame *f, weir_call *c, int32_t self) {
    const weir_tensor *x = c->in;
    int64_t rows = c->out[0].dims[0], targets = c->out[0].dims[1];
    if (rows == 0 || targets == 0) return;
    Room r = cuda_room_of(f, c, weir_device_trees_scratch(c));
    double *sums = cuda_take(&r, rows * targets, 16);
    if (!sums) return;
    RUN(WEIR_TOOL_TREES, rows, word(x[0].data), word(x[1].data), word(x[2].data), word(x[3].data),
        word(x[4].data), word(x[5].data), word(x[6].data), word(x[7].data), word(c->out[0].data),
        word(sums), word(sums + rows * targets), x[0].dtype == WEIR_F64, (uint64_t)rows,
        (uint64_t)x[0].dims[1], (uint64_t)x[2].dims[0], (uint64_t)x[3].dims[0],
        (uint64_t)x[4].dims[0], (uint64_t)x[6].dims[0], (uint64_t)x[7].dims[0], (uint64_t)targets,
        (uint64_t)c->attr[0], word(f->fault), (uint64_t)self);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

int64_t weir_device_value_scratch(const weir_call *c) {
    (void)c;
    return 0;
}

/* One element is read back. */
void weir_device_value(weir_frame *f, weir_call *c, int32_t self) {
    (void)self;
    weir_tensor one = c->in[0];
    int64_t bits = weir_bits(one.dtype), attr[] = {0, c->attr[1], c->attr[2]};
    uint64_t element = 0;
    cuda_fetch(f, &element, (const char *)one.data + c->attr[0] * bits / 8, (bits + 7) / 8);
    attr[0] = bits < 8 ? c->attr[0] % (8 / bits) : 0;
    one.data = &element;
    weir_call of = {
        .nin = 1, .nattr = 3, .ndefine = 1, .in = &one, .attr = attr, .define = c->define};
    if (!f->status) weir_call_value(&of);
}
