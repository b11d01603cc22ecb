/* SPDX-License-Identifier: Apache-2.0 */
/* Level 3, Nest: what runs. One kernel variant as loops over explicit storage.
 *
 * Buffers are containers in memory, indexed in *storage* order (layouts have been applied), or
 * local arrays declared where they live. A statement is a loop, a guard, a declaration, a
 * straight-line `body` that ends in stores, a fold of lanes, a prefetch or a barrier. Emitters
 * print what stands here and choose nothing:
 *
 * - loops marked `parallel` stand outermost; their iterations are independent tasks;
 * - `unroll` loops have constant extents and are printed once per iteration;
 * - a `vector` loop has a constant extent W (lanes) and holds only bodies; every body in it runs
 * for all lanes at once, Val by Val. A read or store whose index does not use the lane is uniform,
 * with the lane as last index and coefficient 1 it is a vector, anything else gathers or scatters.
 * Its guard (`if`: each >= 0) may use the lane: inactive lanes read 0 and store nothing;
 * - a `reg` array may be indexed by constants, unrolled variables and, in its last dim, the lane:
 * each element (each row of W lanes) is one variable;
 * - on cuda, `block` loops stand outermost, then the `shared` arrays of a block, then `thread`
 * loops of constant extents (at most 1,024 threads in all), one inside the other; what stands in
 * the innermost runs in every thread of every block, the last thread loop's neighbours side by
 * side. A `sync` and a `fold thread` are reached by all threads of the block. Two threads may not
 * touch one element, one of them storing, without a `sync` between; two blocks not at all. A nest
 * without blocks and threads runs in one thread and says why (`serial`);
 * - a `fragment` array of a block, beside its `shared` ones, has its elements in registers, as the
 * a operand of a warp's step wants them: of 16-bit elements and rows in the last two dims. With g
 * and t, of 8 and 4, the two innermost loops over threads and l a lane of two, a thread stores
 * elements of rows 8 i + g and columns 8 j + 2 t + l, and steps (`use`) of its warp alone read
 * them. No `sync` need stand between;
 * - an `async` body of one read and one store copies to a shared array behind the thread's back.
 * `commit` ends a group of a thread's copies, `wait N` waits until at most its N newest groups are
 * under way; from then on the thread may read what it copied, others after the next `sync`;
 * - a `steps` block holds steps of groups of warps, which run behind the threads' backs too: what
 * it reads and adds to is nobody else's until `wait steps N`, which waits until at most the N
 * newest of these blocks are under way. All threads of the block of threads come to both;
 * - `turn v : N src -> dst` exchanges what N neighbouring threads, numbered 0..N-1, have in
 * registers: dst at v of thread t is what src at t is to thread v. All threads come to it;
 * - a `swizzled` shared array has rows of 128 bytes, whose 16-byte parts lie exchanged, part p of
 * row r at place p xor r mod 8, as such steps want them. Copies fill it, steps read it;
 * - there a vector loop over one `prefetch` asks for these elements: loads of bodies behind it find
 * them in registers, if they stay there;
 * - a `use` block holds the loops that an instruction of the machine's table does at once: whoever
 * does not know the instruction runs the block. */
#ifndef WEIR_IR_NEST_H
#define WEIR_IR_NEST_H

#include "eval.h"

typedef enum { BUF_MEMORY, BUF_REG, BUF_TILE, BUF_SHARED, BUF_SCRATCH, BUF_FRAGMENT } BufKind;

enum { SWIZZLED_ROW = 128, SWIZZLED_PART = 16, SWIZZLED_ROWS = 8 };
typedef struct Buf {
    const char *name;
    BufKind kind;
    DType type;
    int rank;
    const Dim *box; /* storage extents */
    int cont;       /* BUF_MEMORY: container of the flow, else -1 */
    bool written;   /* BUF_MEMORY: this nest stores to it */
    bool swizzled;  /* BUF_SHARED */
    Dim base;       /* BUF_MEMORY: element offset added to every index (aliases); NULL = 0 */
} Buf;

typedef enum {
    LOOP_SEQ,
    LOOP_PARALLEL,
    LOOP_UNROLL,
    LOOP_VECTOR,
    LOOP_BLOCK,
    LOOP_THREAD
} LoopMark;

typedef struct Store {
    Access to; /* .cont is a buffer number */
    int val;
} Store;

typedef enum {
    STMT_FOR,  /* var runs 0 .. extent-1 */
    STMT_IF,   /* when every guard >= 0 */
    STMT_DECL, /* buffer `buf` lives until the end of this block; every element = init if has_init
                */
    STMT_BODY, /* Vals, then the stores in order */
    STMT_FOLD, /* lanes of a reg row to one element: halving tree W/2 .. 1 of `combine`. With
                * `threads`: over an element of each of W neighbouring threads; all get the result
                */
    STMT_PREFETCH, /* the cache line of `at`, for reading, into L2, on cuda of an element that is
                    * there; or lanes, see above */
    STMT_SYNC,     /* all threads of a block */
    STMT_COMMIT,   /* the asynchronous copies since the last one are a group */
    STMT_WAIT,     /* until no more than `left` groups of copies, or `steps`, are under way */
    STMT_WHILE,    /* body repeats while value `cond` of a bool element is true */
    STMT_STEPS,    /* body runs until it is waited for */
    STMT_TURN,     /* as if `for var : extent unroll` around src -> dst of neighbouring threads */
    STMT_USE /* instruction `use` of the machine stands for the body, which is its meaning here */
} StmtKind;

/* A `use` that holds what each thread of a block copies asynchronously of a box of a dense buffer
 * to one slot of a swizzled array, array[slot, panel, row, place]; what the buffer does not have is
 * 0. Of the buffer's indices (buf_rank of them) the last runs along rows; those up to the last that
 * runs down rows are one number, if several do; the others stay. */
#define COPY_BOX "copy.box"

typedef struct Stmt Stmt;
typedef VEC(Stmt *) Stmts;
struct Stmt {
    StmtKind kind;
    Dim var, extent; /* FOR, TURN */
    LoopMark mark;
    VEC(Dim) guard; /* IF; and lane guards of a LOOP_VECTOR FOR */
    Stmts body;     /* FOR, IF, WHILE */
    int buf;        /* DECL */
    bool has_init;
    Bits init;
    Body code;        /* BODY */
    bool async;       /* BODY: a copy that `wait` waits for */
    int left;         /* WAIT */
    bool steps;       /* WAIT: for `steps`, not for copies */
    VEC(Store) store; /* BODY */
    const Combine
        *combine; /* FOLD: nstate rows `src` (last index: 0, the first lane) -> `dst` elements */
    bool threads;
    int lanes;
    const Access *src, *dst; /* FOLD, TURN */
    Access at;               /* PREFETCH, WHILE's condition */
    const char *use;         /* USE */
    const char *from;
};

typedef struct Nest {
    Arena *arena;
    Ctx *ctx;
    const char *name;
    const char *on;     /* "cpu", "cuda" */
    const char *serial; /* why one thread runs all of it, where others would do; or NULL */
    Dim alternates;     /* parallel loops run backward where this symbol is odd; or NULL */
    VEC(Symbol) symbol;
    VEC(Buf) buf;
    Stmts body;
    const char *from;
} Nest;

/* Dims of a buffer without the trailing ones of one element. */
static inline int buf_rank(const Buf *b) {
    int rank = b->rank;
    while (rank > 0 && dim_is(b->box[rank - 1], 1)) rank--;
    return rank;
}

/* The whole program at the last level: the flow's containers and item order, a nest per kernel. */
typedef struct Program {
    Arena *arena;
    const Flow *flow;
    VEC(Nest *) nest;              /* by kernel number of the flow */
    const struct Program *prepare; /* of flow->prepare, or NULL */
} Program;

enum { TURN_MOST = 4 };
Nest *nest_new(Arena *arena, const char *name);
int nest_buf(Nest *nest, const char *name, BufKind kind, DType t, const Dim *box, int rank);
/* The layout of a buffer's container in the flow (NULL: of none); NULL where it is dense. */
const Layout *nest_layout(const Nest *nest, const Flow *flow, int buf);
/* The number of the access's element in its buffer, row by row. */
Dim nest_flat(const Nest *nest, const Access *a);
/* Appends an empty statement; the others fill in what they name. */
Stmt *nest_stmt(Nest *nest, Stmts *into, StmtKind kind);
Stmt *nest_for(Nest *nest, Stmts *into, Dim var, Dim extent, LoopMark mark);
Stmt *nest_turn(Nest *nest, Stmts *into, Dim var, int lanes, Access src, Access dst);
Stmt *nest_if(Nest *nest, Stmts *into);
Stmt *nest_decl(Nest *nest, Stmts *into, int buf);
Stmt *nest_body(Nest *nest, Stmts *into);

void nest_print(Text *out, const Nest *nest);
/* The first line of a statement, for messages. */
const char *nest_stmt_str(Arena *arena, const Nest *nest, const Stmt *stmt);
Nest *nest_parse(Arena *arena, const char *text, const char **end);
/* Bounds of every access proven or guarded, types, declared before use, marks as above. */
void nest_verify(const Nest *nest);
/* Runs a nest. `buf[i].data` is the storage of BUF_MEMORY buffer i (others NULL); sym binds
 * symbols. Parallel loops and blocks run in order 0..n-1, the threads of a block in lockstep.
 * Out-of-bounds accesses, races and barriers that not all threads reach are E_VERIFY. */
void nest_eval(const Nest *nest, Tensor *buf, DimValueFn *sym, void *user);
/* What the warps of a nest ask of memory, and what of that is waste. */
typedef struct NestTraffic {
    int64_t requests;       /* of memory, by a warp at a time */
    int64_t sectors, least; /* of 32 bytes: touched; the least for as many elements */
    int64_t uncoalesced;    /* requests that touch more than twice the least */
    int64_t shared;         /* requests of shared memory, 128 bytes at a time at most */
    int64_t conflicts;      /* times that one more had to wait for the same bank */
} NestTraffic;
/* Runs a whole program as flow_eval does, by nests. */
void program_eval(Arena *arena, const Program *program, const Tensor *in, Tensor *out);
void program_eval_watched(Arena *arena, const Program *program, const Tensor *in, Tensor *out,
                          EvalWatchFn *watch, void *user);
/* Counting, by kernel of the flow; `traffic` starts as zeros. */
void program_eval_counted(Arena *arena, const Program *program, const Tensor *in, Tensor *out,
                          NestTraffic *traffic);

#endif
