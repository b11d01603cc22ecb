/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that turn one nest into C: emit_nest.c (loops, storage), emit_body.c (values,
 * reads, stores), emit_prim.c (one primitive).
 *
 * Names in the text say what a thing is and never where it came from, so that equal kernels are
 * equal text: a0 memory, b0 local arrays, r0_1 register elements, s0 symbols, i0 loop variables, x0
 * values, o0 sums of places, n0 counts of active lanes, m0 masks. */
#ifndef WEIR_C_NEST_H
#define WEIR_C_NEST_H

#include "compiler/emit.h"
#include "compiler/targets/c/target.h"
#include "ir/machine.h"
#include "ir/nest.h"

/* A value in the text. A bool vector is a mask: lanes of `mask` bits, 0 or -1; a bool scalar is 0
 * or 1. */
typedef struct CVal {
    const char *text; /* a name or literal: may be repeated */
    DType type;
    bool vector;
    int mask;
    const char *splat;   /* of a scalar: its vector, once it was needed */
    const Val *constant; /* VAL_CONST it came from, or NULL */
    const char *single;  /* of a half: its value as an f32, if that was printed, or NULL */
    const char *wide;    /* of a vector of 8-bit codes: the i32 vector it was made of, or NULL */
    const char *codes; /* a vector of words in whose low 4 bits codes are that it is computed of, */
    const Bits *table; /* and its value for each of them; or NULL */
} CVal;

/* How a buffer is spelled. */
typedef struct CBuf {
    BufKind kind; /* registers that are indexed by loop variables become arrays */
    const char *name;
    int lanes;   /* BUF_REG: the last dim is rows of this many lanes; 0: elements */
    Dim scratch; /* BUF_SCRATCH: byte offset */
    bool read, written;
    bool picked; /* data say where */
} CBuf;

/* What an access means here; kept by its index array. */
typedef struct CAccess {
    int buf;
    Dim flat;  /* element offset */
    bool data; /* some index comes from data: to be checked */
} CAccess;

/* A load that was printed: reusable while its scope lives and its buffer is not written. */
typedef struct Loaded {
    int buf, lanes, epoch, scope;
    Dim flat;
    const char *mask;
    CVal val;
} Loaded;

/* A part of where accesses are, as a variable of a scope. */
typedef struct Spot {
    Dim sum;
    const char *name;
    int scope;
} Spot;

typedef enum { MASK_NONE, MASK_PREFIX, MASK_LANES } MaskKind;

/* The `vector` loop around a body. */
typedef struct CLanes {
    Dim var;   /* NULL: not in one, or only the width matters (folds) */
    int width; /* 1: scalar code */
    MaskKind kind;
    const char *count; /* MASK_PREFIX: name of the number of active lanes */
    Dim active;        /* that number where it is less than `width`; NULL: the least of several */
    const char *mask;  /* name of the mask vector (32-bit lanes), once printed */
} CLanes;

/* An index expression that was computed as a vector. */
typedef struct VectorDim {
    Dim dim;
    const char *text;
} VectorDim;

/* A box of a buffer, as the engine that copies such takes it: sizes of the buffer's dims, the
 * innermost first, and rows that the box has. */
enum { BOX_DIMS = 4 };
typedef struct CBox {
    int buf, rank, outer, rows; /* outer: the dim that rows go down */
    bool rounds;                /* words, to TF32 */
    Dim size[BOX_DIMS];
} CBox;

typedef struct CNest CNest;
typedef struct CKernel CKernel;
struct CWide; /* of a target: what a vector loop stores at once */

/* What is printed of the blocks of instructions: them, but for groups of b that a step has loaded;
 * the loads of these; products that are added in pairs (emit_use.c). */
typedef enum { USE_WHOLE, USE_GROUPS, USE_PAIRS } UseForm;

/* What a target spells its own way. Functions that are NULL: what they print does not occur. */
typedef struct CForm {
    const char *math;                          /* before fma, sqrt, prefetch: "__builtin_" */
    bool vectors;                              /* else `vector` loops are unrolled */
    bool checked;                              /* bounds checks in front of accesses */
    bool spots;                                /* parts of places are variables */
    CopyEngine engine;                         /* which kernels' boxes it copies */
    const char *rolled;                        /* before a loop with barriers in it, or NULL, ... */
    const char *unrolled;                      /* ... and before short ones between these */
    void (*phases)(CNest *c, CKernel *k);      /* the functions of a kernel */
    void (*loop)(CNest *c, const Stmt *s);     /* over blocks or threads */
    void (*array)(CNest *c, const Stmt *s);    /* declares a local array */
    bool (*lanes)(CNest *c, const Stmt *loop); /* a `vector` loop; false: to be unrolled */
    void (*use)(CNest *c, const Stmt *s);
    bool (*store)(CNest *c, const Access *to, CVal *v);      /* false: as usual */
    void (*sync)(CNest *c, const Stmt *s);                   /* and what waits for copies */
    void (*fold)(CNest *c, const Stmt *s, const Combine *k); /* over threads */
} CForm;

struct CNest {
    const CForm *form;
    const char *index; /* type of loop variables: "i64" */
    Arena *arena;
    Ctx *ctx;
    const Nest *nest;
    const Flow *flow; /* for literals; may be NULL */
    const Machine *machine;
    Text out;
    int indent;
    Names names; /* the kernel's symbols, then loops */
    int nsymbol;
    CBuf *buf;
    Table *access; /* index array -> CAccess */
    VEC(Loaded) loaded;
    int loaded_from; /* entries before are hidden */
    VEC(Spot) spot;
    int epoch[2]; /* of memory, of local arrays: raised by every store */
    int scope;
    int lanes; /* of the widest `vector` loop */
    int fresh; /* next number of x, n, m */
    CLanes lane;
    CVal *val; /* of the body being printed */
    const Body *body;
    VEC(VectorDim) vector; /* in this body */
    bool bad;              /* an index from data was checked */
    bool tiled;            /* tiles were opened */
    bool between;          /* barriers of a loop */
    UseForm uses;
    Text sums, marks;         /* USE_GROUPS: of those that were loaded */
    const struct CWide *wide; /* NULL: stores go their usual way */
    int threads;              /* of a block */
    VEC(const Stmt *) behind; /* steps that are under way */
    Dim inner[3];             /* variables of the innermost loops over threads, outermost first */
    int shared;               /* bytes so far of shared arrays that a launch provides; -1: none */
    int held;                 /* ... of others */
    bool swizzled;            /* there are swizzled ones */
    const Stmt *first;        /* threads that load weights before they wait for the launch ahead */
    const char *loading;      /* where they do: what must hold for it, or ""; else NULL */
    int stages;               /* groups of boxes that the engine copies at a time; 0: it does not */
    bool apart;               /* threads copy asynchronously besides */
    VEC(CBox) box;            /* that are copied */
    Dim scratch;              /* bytes */
};

/* ---- text ------------------------------------------------------------------------------------ */

void put_line(CNest *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *str(const CNest *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *scalar_type(DType t);                 /* "f32"; f16 and the like: "u16", "u8" */
const char *vector_type(const CNest *c, DType t); /* "v16f32" for the lanes at hand */
const char *mask_type(const CNest *c, int bits);  /* "v16i32" */
int value_bits(DType t);                          /* of scalar_type */
bool is_small_float(DType t);

/* ---- values (emit_body.c) -------------------------------------------------------------------- */

void emit_body(CNest *c, const Stmt *s);
/* Its pieces: one Val, of c->val's body; the stores, when c->val has all. */
CVal emit_val(CNest *c, const Val *v, const CVal *params, bool copy);
/* emit_branch.c: by Val of a body the condition (a Val) of the branch that it stands in or is a
 * result of, or -1; NULL: the body has no branches. And all its Vals, with these. */
const int *body_branches(const CNest *c, const Stmt *s);
void emit_branched(CNest *c, const Stmt *s, const int *branch);
void emit_stores(CNest *c, const Stmt *s);
/* emit_weave.c: unrolled loops around a long body, a few iterations at once; false: they are not.
 */
bool emit_woven(CNest *c, const Stmt *s);
/* emit_turn.c: unrolled rows of lanes that are stored as columns, turned in registers; false: they
 * are not such. */
bool emit_turned(CNest *c, const Stmt *s);
/* Computes a body for all lanes; what it stores first, as it lies in memory. */
const char *emit_row(CNest *c, const Stmt *body);
void emit_fold(CNest *c, const Stmt *s);
const char *literal(const CNest *c, DType t, Bits bits);
/* Declares `const TYPE xN = text` and returns it as a value. */
CVal named(CNest *c, DType t, bool vector, int mask, const char *text);
/* The value as a vector: splat when scalar; bools as a mask of `bits` (0: as it is). */
const char *as_vector(CNest *c, CVal *v);
const char *as_mask(CNest *c, CVal *v, int bits);
const char *as_lane(CNest *c, const CVal *v, int lane); /* a scalar expression */
const char *lane_mask(CNest *c);                        /* the mask in force, 32-bit lanes */
bool uses_lane(const CNest *c, Dim d);
Dim at_lane(const CNest *c, Dim d, int lane); /* d with a number for the lane */
/* d = coef*lane + rest with a constant coef? */
bool lane_affine(const CNest *c, Dim d, int64_t *coef, Dim *rest);

/* ---- indices (emit_index.c) ------------------------------------------------------------------ */

bool varies(const CNest *c, Dim d);      /* differs from lane to lane */
const char *vector_dim(CNest *c, Dim d); /* the name of d as a vector of i64 */

/* ---- memory (emit_memory.c) ------------------------------------------------------------------ */

/* Bytes of a local array, over model symbols. */
Dim array_bytes(CNest *c, const Buf *b);
/* emit_codes.c: an element; is it less than a byte? */
bool is_packed(DType t);
/* Where an element lies in its buffer: at its offset, but in swizzled arrays. */
const char *emit_place(const CNest *c, int buf, const char *offset);
const char *get_element(const CNest *c, int buf, const char *offset);
void put_element(CNest *c, int buf, const char *offset, const char *value);
/* Codes of less than a byte whose lanes lie a word apart; false: they do not. */
bool read_codes(CNest *c, const Access *a, int64_t step, Dim first, CVal *out);
/* Looks r up that v gives, where it is computed of codes and constants. */
void compute_codes(CNest *c, const Val *v, const CVal *args, CVal *r);
CVal loaded_vector(CNest *c, DType t, const char *text);
/* emit_place.c: the element offset of an access, whose indices do not come from data. */
const char *emit_offset(CNest *c, Dim flat);
/* An equal load that still holds, or a new one. */
CVal read_shared(CNest *c, const Access *a, Dim flat);
/* emit_pick.c: every step-th element from `first` on. */
CVal read_sifted(CNest *c, const Access *a, Dim first, int64_t step);
/* Elements of one vector that lanes pick; false: they do not. */
bool read_picked(CNest *c, const Access *a, Dim flat, CVal *out);
CVal emit_read(CNest *c, const Val *v,
               bool copy); /* copy: a register's value may change before its use */
void emit_store(CNest *c, const Access *to, CVal *v);
/* Where the access lies in memory, as an index of elements; NULL: it does not, or not so. */
Dim stored_at(CNest *c, const Access *a);
/* Where the first lane lies in memory, and how far apart lanes are; false: not known, or not apart.
 */
bool row_place(CNest *c, const Access *a, Dim *step, Dim *first);
/* Vectors whose first n elements are stored: from `first` on, each a step behind the one before. */
typedef struct CRows {
    const char *const *row;
    int count, n;
    Dim first, step;
} CRows;
void emit_store_turned(CNest *c, const Access *to, const CRows *rows);
/* n vectors that make one row, n elements a lane, from where the first lane lies. */
void emit_store_dense(CNest *c, const Access *to, const char *const *part, int n);
const char *raw_vector(CNest *c, CVal *v);     /* as it lies in memory: bools in bytes */
const char *raw_type(const CNest *c, DType t); /* the type of that */
void emit_prefetch(CNest *c, const Stmt *s);
const char *emit_element(CNest *c, const Access *at); /* the C expression of a uniform access */
/* The variable of a register access, and in *element the lane of a row it names (-1: the whole
 * row). */
const char *reg_name(CNest *c, const Access *a, int *element);
/* Does d use the symbol of a Val of this body? `vector`: of a vector one? */
bool uses_value(const CNest *c, Dim d, bool vector);
/* Gives the symbols of this body's Vals their spelling for one lane; returns where to pop to. */
int push_values(CNest *c, int lane);

/* The element offset of an access whose indices do not come from data. */
Dim access_flat(CNest *c, const Access *a);

/* ---- bounds checks (emit_check.c): lines, when the form is checked -----------------------------
 */

/* `verb` is "reads" or "stores". Of `count` elements from `first` on; of each lane that is on, at
 * `place` (where `l` is the lane); of a row, `whole` when lanes that are off touch the memory
 * behind a local array too; of a lane each `step` elements. */
void check_span(CNest *c, const char *verb, const Access *a, const char *first, const char *count);
void check_lanes(CNest *c, const char *verb, const Access *a, const char *place);
void check_row(CNest *c, const char *verb, const Access *a, const char *first, bool whole);
void check_step(CNest *c, const char *verb, const Access *a, Dim first, int64_t step);
/* A local array is filled: `n` elements. */
void check_filled(CNest *c, const Buf *b, const char *n);

/* ---- instructions (instructions.c, emit_use.c) ----------------------------------------------- */

/* A row and how C spells it: helpers that load a group of `a` for all lanes, groups of `b` (with
 * an n at the end: of the first n lanes), and multiply and add. */
typedef struct CInstruction {
    Instruction row;
    double speed;        /* Machine.use_speed; */
    double beside_tiles; /* the same where the processor has a step on tiles of it */
    const char *feature; /* a name of runtime/cpu.def that a level does not include, or "" */
    const char *load_a, *load_b, *multiply;
} CInstruction;
const CInstruction *target_c_instructions(int *n);
const CInstruction *target_c_instruction(const char *name); /* NULL: unknown */
const CInstruction *target_c_pairs(const char *name); /* the row with these Instruction.pairs */
/* A step on tiles, and the helper that adds one. */
typedef struct CMatrix {
    MatrixStep step;
    const char *feature, *helper;
} CMatrix;
const CMatrix *target_c_matrix(const char *name); /* NULL: unknown */
void target_c_uses(Machine *m, bool (*has)(const void *user, const char *feature),
                   const void *user); /* fills in m->use and m->matrix */
/* A `use` block: an instruction's, or (emit_matrix.c) one of tiles. */
void emit_use(CNest *c, const Stmt *s);
bool emit_matrix(CNest *c, const Stmt *s); /* false: it is not one of these */
/* A block of an instruction: what it reads and adds to. */
typedef struct Used {
    const Stmt *group, *lanes; /* its loops, around one body c = fma(a, b, c) */
    const Access *a, *b, *c;
} Used;
Used used_of(const CNest *c, const Stmt *s);

/* ---- primitives (emit_prim.c) ---------------------------------------------------------------- */

CVal emit_prim(CNest *c, const Val *v, CVal *args);

/* ---- one nest (emit_nest.c) ------------------------------------------------------------------ */

/* Around what a `vector` loop holds whose guard, if any, is the number of active lanes. */
bool prefix_lanes(CNest *c, const Stmt *loop); /* is it one of these? */
void open_lanes(CNest *c, const Stmt *loop);
void close_lanes(CNest *c);

/* A kernel is one or more phases, a function each, with a barrier between. */
typedef struct CPhase {
    const char *text; /* the function from its parameters on: `(const f32 *a0, ...) {...}` */
    Dim tasks;        /* 1: run by one thread */
    double work;      /* about how many vector operations; < 0: not known */
    bool bad;         /* an index from data may be out of range */
    int threads;      /* of a block; 0: on the host */
    int held;         /* bytes of a block's shared arrays, without those that a launch provides */
    int resident;     /* blocks that a core should have room for; 0: as may be */
    bool blocks;      /* tasks are blocks */
    bool early;       /* threads load weights before they wait for the launch ahead */
    const CBox *box;  /* what the engine copies, in parameter order */
    int nbox;
} CPhase;

struct CKernel {
    Arena *arena;
    VEC(CPhase) phase;
    VEC(int) buf;    /* memory buffers, in parameter order */
    VEC(Dim) symbol; /* then symbols */
    Dim scratch;     /* bytes of scratch */
    int shared;      /* bytes of a block's shared arrays that a launch provides */
};
CKernel *emit_nest(Arena *arena, const Nest *nest, const Flow *flow, const Machine *machine,
                   const CForm *form);
extern const CForm c_form, c_form_checked;

/* Parts of it, for the files of other targets. */
void open_scope(CNest *c);
void close_scope(CNest *c); /* and prints the brace */
void emit_stmts(CNest *c, const Stmts *stmts);
/* What must hold for all guards to be >= 0: "" where they always are, NULL where one never is. */
const char *emit_guards(CNest *c, const Dim *guard, int n);
void begin_phase(CNest *c);
bool may_alias(const CNest *c); /* may two memory buffers be the same bytes, one of them written? */
bool is_parallel(const Stmt *s);
bool writes_memory(const CNest *c, const Stmt *s); /* not only to local arrays */
/* The loops of one mark that stand directly in one another, as one range of tasks. */
typedef struct CTasks {
    const Stmt *loop[RANK_MAX];
    int n;
    const Stmts *body;
    Dim count;
} CTasks;
CTasks tasks_of(CNest *c, const Stmt *s);
void emit_tasks(CNest *c, const CTasks *t);
const char *array_type(const Buf *b);
void init_array(CNest *c, const Stmt *s);
/* Puts the merge of params (left states, then right ones) into the first of them. */
void merge(CNest *c, const Combine *k, CVal *params);

/* emit_scan.c: fills kind, lanes, read, written of c->buf and the kernel's symbols. */
void scan_nest(CNest *c, CKernel *kernel);
/* Do all threads of a block meet in these? */
bool has_barrier(const Stmts *stmts);

/* The helpers that emitted code may use: scalar.in, vector.in, dot.in. */
const Helpers *target_c_helpers(Arena *arena);

#endif
