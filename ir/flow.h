/* SPDX-License-Identifier: Apache-2.0 */
/* Level 2, Flow: what moves. Containers, maps over them, and how they are scheduled.
 *
 * A map has an iteration domain (a box of dims, cut by affine constraints), reads, scalar code and
 * writes. Each access is an affine relation; reshape, transpose, slice, pad, concat are composed
 * into accesses. Dims that no write index uses are reduced by the write's combine.
 *
 * Flow is single-assignment by element: maps that write one container are disjoint, and every
 * element that is read or output is written. Schedules are data: `Kernel`s say which maps run
 * together and how; the lowering `nests` reads them and chooses nothing. What a flow means is
 * eval.h, what it moves move.h. */
#ifndef WEIR_IR_FLOW_H
#define WEIR_IR_FLOW_H

#include "body.h"

/* ---- containers ----------------------------------------------------------------------------- */

typedef enum { CONT_IN, CONT_OUT, CONT_PARAM, CONT_TMP, CONT_STATE, CONT_LITERAL } ContKind;

/* Storage index = map(logical index), inside `box`. Logical dim k stands as the symbol `_k`
 * (flow_layout_sym). Elements of the box that no logical element maps to hold `fill`, if has_fill
 * (a promise of the writer), else anything.
 *
 * Behind bytes of weights may lie a mark for each MARKED_BYTES of them, a byte that is 0 where
 * neighbours, the elements 2i and 2i + 1, add up to -128..127. Packing makes them. */
enum { MARKED_BYTES = 32 };
typedef struct Layout {
    int rank;
    const Dim *map;
    const Dim *box;
    bool has_fill, marks;
    Bits fill;
} Layout;

typedef enum {
    PLACE_NONE,
    PLACE_ARENA,
    PLACE_KERNEL /* lives inside one kernel: no memory */
} Place;

typedef struct Cont {
    const char *name;
    ContKind kind;
    DType type; /* STRING, OBJECT: handles, see runtime/objects.h; maps move them, calls look behind
                 */
    int rank;
    const Dim *shape;
    const Layout *layout; /* NULL: dense, row-major */
    const void
        *data; /* param, literal: packed elements in layout order of a dense tensor; a view */
    int64_t data_bytes;
    const void *unseen; /* param that may be swapped, its data for the evaluator alone */
    bool has_range; /* `in lo..hi`: values of integer inputs, for random data and index proofs */
    int64_t lo, hi;
    Place place;        /* set by `place` */
    Dim offset;         /* PLACE_ARENA: bytes from the arena's start */
    const char *object; /* OBJECT: the type as text, "seq(f32[N])"; may be NULL */
    const char *from;   /* source tensor, for messages */
} Cont;

/* ---- maps ----------------------------------------------------------------------------------- */

typedef struct MapDim {
    Dim sym; /* runs 0 .. extent-1 */
    Dim extent;
    bool seq; /* may read what earlier iterations wrote */
} MapDim;

typedef struct Write {
    int n; /* 1, or the combine's states after `finish` */
    const Access *to;
    const int *val;         /* numbers in the map's body */
    const Combine *combine; /* NULL: plain assignment, every iteration its own element */
    int nstate;             /* a tuple combine takes nstate values and finishes to n */
} Write;

typedef struct Map {
    const char *name;
    VEC(MapDim) dim;
    VEC(Dim) cons; /* each >= 0 cuts the domain; affine in the dims */
    Body body;
    VEC(Write) write;
    const char *from; /* source nodes (from_join) */
    bool coded; /* a product by codes may round its other factor to codes of 8 bits, a scale for
                   each block of terms that have one (quantize_rows.c) */
} Map;

/* ---- calls and regions ---------------------------------------------------------------------- */

#include "call.h"
typedef struct Call {
    const char *name;
    const CallRow *row;
    int nin, nout;
    const int *in, *out; /* containers; -1: absent */
    int nattr;
    const int64_t *attr; /* meaning by row */
    int ndefine;
    const Dim *define; /* symbols this call defines at run time (K of nonzero) */
    const char *from;
} Call;

typedef struct Item Item;
typedef VEC(Item) Items;

typedef struct Carry {
    int cur, init,
        next; /* containers: cur = init before the loop; cur = next after each iteration */
} Carry;

typedef enum { ITEM_MAP, ITEM_CALL, ITEM_LOOP, ITEM_IF } ItemKind;
struct Item {
    ItemKind kind;
    int map; /* ITEM_MAP: index into flow->map */
    Call *call;
    /* ITEM_LOOP: `loop t:trip [while cond] [carry ...] { body }`: t counts from 0; trip NULL:
     * unbounded; cond: a bool scalar read before each iteration (-1: none); `done` (may be NULL) is
     * a symbol of the flow that holds the number of iterations run, after the loop. A plain
     * sequential region has no cond and no carry, and its state containers are arrays over t. */
    Dim var, trip, done;
    int cond; /* also ITEM_IF's condition: a bool scalar container; -1 where sizes decide: */
    Dim when; /* ITEM_IF: >= 0 */
    VEC(Carry) carry;
    Items body, other; /* ITEM_IF: then and else, writing the same containers */
    const char *from;
};

/* ---- schedules ------------------------------------------------------------------------------ */

typedef enum { KEEP_REG, KEEP_TILE, KEEP_SHARED, KEEP_SCRATCH, KEEP_ARENA } Storage;

/* One word of a kernel with its arguments. `map` is the map it speaks of (index in the kernel's
 * list), the last map when none was named. See ir/README.md for each word's meaning. */
typedef enum {
    LINE_TILE,     /* arg: dim, size. One line = one level; several nest, outermost first */
    LINE_ORDER,    /* arg: dim: the order of the tile loops (of the level before it) */
    LINE_PARALLEL, /* arg: dim: outermost tile loops that are spread over threads */
    LINE_BLOCK,
    LINE_THREAD,   /* arg: dim: tile loops that are spread over blocks, and below them over the
                    * threads of a block. arg: dim, threads: the dim's innermost loop runs on so
                    * many threads, as a vector dim's does in lanes; with a vector line of the
                    * dim, each takes so many neighbours. Where other maps of the kernel have more
                    * threads, each so many do all of it */
    LINE_AT,       /* arg: dim, size or 0: map computed inside the tile loops of these dims of the
                      last map; of several loops over a dim, that of this size, or the innermost */
    LINE_KEEP,     /* container `cont` of `map` is kept in `storage` */
    LINE_VECTOR,   /* arg: dim, lanes: this dim's innermost loop runs in lanes */
    LINE_UNROLL,   /* arg: dim, 0 = whole: unrolled in the tile */
    LINE_REDUCE,   /* arg: dim, block: order of the reduction loops, outermost first (0 = whole dim)
                    */
    LINE_SPLIT,    /* arg: dim, parts: a reduction in parts, a thread each, merged in order */
    LINE_PARTIAL,  /* arg: dim, block: each block is reduced from the identity, then merged */
    LINE_FACTOR,   /* arg: dim of a `partial` line with blocks of 1: what a product has as factors
                    * that no other reduced dim enters multiplies each block's sum, not its terms */
    LINE_PREFETCH, /* cont: prefetch its next panel while this one is used; arg: block by block of
                    * a dim, each tile of rows its part. Of a last map that reduces nothing: what a
                    * tile reads of it, before sums are made for it. Of blocks of threads, arg: dim,
                    * so many blocks: what the block reads of it that many further along the dim;
                    * none: a weight, of which each thread loads what it reads before all else */
    LINE_MERGE,    /* arg: dims joined to one loop */
    LINE_USE,      /* name: an instruction of the target's table */
    LINE_STAGE,    /* cont: threads copy what a block of the reduction reads of it to shared memory,
                    * `ahead` blocks before it is used (0: then) */
    LINE_SERIAL,   /* name: why one thread runs all, on a machine of many */
    LINE_ROWS,     /* arg: dims joined, the last with a size: so many rows of results in a block; */
    LINE_COLUMNS,  /* and columns. A second line of each: in a warp, by the instruction in `use` */
    LINE_DEPTH,    /* arg: reduced dims joined, the last with a size: reduced in such blocks */
    LINE_LIBRARY,  /* name: a vendor's library makes the results; other lines say what these are */
    LINE_ALTERNATE, /* of a kernel in a loop: in every other iteration its tasks run backward */
    LINE_SKIP /* arg: reduced dims: indices by which a tile meets but a margin of zeros are left out
               */
} LineKind;

typedef struct LineArg {
    const char *dim; /* symbol name */
    int64_t size;
} LineArg;
typedef struct Line {
    LineKind kind;
    int map;   /* position in kernel->map */
    int cont;  /* LINE_KEEP, LINE_PREFETCH, LINE_STAGE: container number */
    int ahead; /* LINE_STAGE */
    Storage storage;
    const char *name;
    int narg;
    const LineArg *arg;
    int source; /* line of the text that it was read from; 0: none */
} Line;

typedef struct Kernel {
    const char *name;
    VEC(int) map;   /* indices into flow->map, in order; the last is the root */
    VEC(Dim) when;  /* guard: all >= 0; the last variant of a group has none */
    const char *on; /* "cpu" or "cuda" */
    VEC(Line) line;
    int source; /* line of the recipe that gives its lines; 0: a pass chose them */
} Kernel;

/* ---- the flow ------------------------------------------------------------------------------- */

typedef struct Symbol {
    Dim sym;
    int64_t lo, hi; /* hi = INT64_MAX: unbounded */
    Dim upper;      /* data-dependent symbols: a bound in terms of others, else NULL */
} Symbol;

/* Is the symbol in the shape, or in the box of the layout? */
bool cont_uses(const Cont *c, Dim sym);
/* Is there a bound that storage may be sized by? INT32_MAX and more stand for "anything". */
bool symbol_bounded(const Symbol *symbol);

/* Sizes that must be equal, or (broadcast) equal or one of them 1: checked when a run begins. Over
 * the symbols that inputs give. With `index`, the name of an input: its elements are indices of an
 * extent `a`, negative ones from the end. */
typedef struct Require {
    Dim a, b;
    bool broadcast;
    const char *index;
    const char *from; /* the node that asks for it */
} Require;

typedef struct Alias {
    int cont, of; /* cont shares of's memory ... */
    Dim offset;   /* ... at this element ... */
    Dim when;     /* ... in runs where this is >= 0; NULL: in all */
} Alias;

/* A constant string; its number is its handle. Number 0 is empty, whether listed or not. */
typedef struct FlowText {
    const char *at; /* lives as long as the context */
    int64_t n;
} FlowText;

/* The names of the first n containers or maps; those of some that went stay taken. */
typedef struct TakenNames {
    Table *at;
    int n;
} TakenNames;

typedef struct Flow {
    Arena *arena;
    Ctx *ctx;
    const char *name;
    VEC(FlowText) text;
    Table *text_number; /* interned text -> number + 1 */
    VEC(Symbol) symbol;
    VEC(Cont) cont; /* inputs and outputs in the model's order among themselves */
    VEC(Map *) map;
    Items body; /* program order */
    VEC(Require) require;
    VEC(const Combine *) combine; /* defined in the text */
    VEC(Kernel *) kernel;
    VEC(Alias) alias;
    Dim arena_bytes; /* set by `place` */
    bool loops;      /* are there loops? Set by whoever makes one */
    TakenNames cont_names, map_names;
    /* The constant part, when it runs where the model does: its outputs are the parameters of this
     * flow that have their names, its parameters are weights as the model gives them. Else NULL. */
    const struct Flow *prepare;
} Flow;

/* ---- building (flow.c) ---------------------------------------------------------------------- */

Flow *flow_new(Arena *arena, const char *name);
Flow *flow_clone(Arena *arena, const Flow *flow); /* deep: passes edit the copy */
/* Appends the work of `from`, of the same context, to `into`, its names behind `name`. cont[k]: the
 * target's container for container k of `from`, or -1: one is made (and its number put there).
 * `subst` gives the sizes that the symbols of `from` stand for. */
void flow_inline(Flow *to, Items *into, const Flow *from, const char *name, int *cont,
                 const DimSubst *subst, int nsubst);
int flow_cont(Flow *flow, const char *name, ContKind kind, DType t, const Dim *shape, int rank);
/* The handle of a constant string: equal strings have one. */
int64_t flow_text(Flow *flow, const char *at, int64_t n);
Map *flow_map(Flow *flow, Items *into, const char *name, const char *from); /* appends its Item */
void items_insert(Flow *flow, Items *items, int at,
                  const Items *made); /* in front of number `at` */
/* Makes the list anew, inner lists first: `fn` appends to `out` what stands for `it`, which stood
 * in `home`. */
typedef void ItemFn(void *user, Item it, const Items *home, Items *out);
void items_rebuild(Flow *flow, Items *items, ItemFn *fn, void *user);
/* The list that map `map` stands in, this one or one inside, and where; NULL: it stands nowhere. */
Items *items_with(Items *items, int map, int *at);
/* Before or behind map `map`, wherever it stands in these; false: it stands nowhere. */
bool items_insert_beside(Flow *flow, Items *items, int map, bool after, const Items *made);
/* Source nodes of a map, call or statement: names, one a line; NULL: none. Passes that merge work
 * join them. */
const char *from_join(Ctx *ctx, const char *a, const char *b);
const char *from_words(Ctx *ctx, const char *from);              /* with commas, for messages */
Dim map_dim(Flow *flow, Map *map, const char *name, Dim extent); /* made unique within the map */
int map_read(Flow *flow, Map *map, int cont, const Dim *at);     /* rank Dims */
int map_read_else(Flow *flow, Map *map, int cont, const Dim *at, int otherwise);
void map_write(Flow *flow, Map *map, int cont, const Dim *at, int val, const Combine *combine);
/* A whole tuple write; conts/at have n entries, vals nstate. */
void map_write_tuple(Flow *flow, Map *map, int n, const int *conts, const Dim *const *at,
                     int nstate, const int *vals, const Combine *combine);
bool map_reduces(const Map *map, int dim);           /* no write index uses it */
Dim flow_layout_sym(Ctx *ctx, int k);                /* the symbol "_k" */
bool layout_equal(const Layout *a, const Layout *b); /* NULL: dense */
/* Storage rank, box and index of a container, dense or not; `at`/`box` hold >= 16 Dims. */
int cont_storage(Ctx *ctx, const Cont *cont, Dim *box);
int cont_address(Ctx *ctx, const Cont *cont, const Dim *logical, const DimEnv *env, Dim *at);
/* Two kinds of symbols say how the caller's memory lies, not how large anything is; they are 0 when
 * it is dense and nothing is shared. The spare of an input or output: elements of its box along dim
 * `*dim` beyond its shape. And whether an output shares an input's memory: the symbol of an alias'
 * `when`. The container, or the alias' number; else -1. */
int flow_spare(const Flow *flow, Dim sym, int *dim);
int flow_shared(const Flow *flow, Dim sym);
/* Does the map copy a whole input to the same place of an output that is longer along one dim, and
 * nothing else? Then both may lie in one buffer, and the map need not run. */
bool flow_carries_over(const Flow *flow, const Map *map, int *from, int *to, int *dim);
/* Ranges: model symbols, then the map's dims. */
DimEnv flow_env(Arena *arena, const Flow *flow);
DimEnv map_env(Arena *arena, const Flow *flow, const Map *map);
enum { RANK_MAX = 16 };

/* The flow as a kernel with `merge` lines sees it (flow_merge.c): a copy that shares what is not
 * joined; the flow itself without such lines. NULL, with the reason, when dims cannot be joined. */
const Flow *flow_merged(Arena *arena, const Flow *flow, const Kernel *kernel, const char **why);

/* ---- text (flow_print.c, flow_parse.c) ------------------------------------------------------ */

void flow_print(Text *out, const Flow *flow);
/* Parses one flow from text; errors are E_SYNTAX with the line. `end` gets where it stopped. */
Flow *flow_parse(Arena *arena, const char *text, const char **end);

/* ---- checks (flow_verify.c) ----------------------------------------------------------------- */

/* E_VERIFY with the whole flow printed and the message at the guilty line. */
void flow_verify(const Flow *flow);

#endif
