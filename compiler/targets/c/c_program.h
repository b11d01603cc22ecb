/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that print the program around the kernels: emit_units.c (kernels into units),
 * emit_program.c (the walk over the flow's items), emit_sizes.c (sizes that data define),
 * emit_tables.c (symbols, sizes, descriptor), emit_check.c (bounds checks). */
#ifndef WEIR_C_PROGRAM_H
#define WEIR_C_PROGRAM_H

#include "c_nest.h"
#include "target.h"

/* One function, shared by all kernels whose text is equal. */
typedef struct CFunction {
    const char *text; /* from the parameters on */
    const char *from; /* what it comes from, for the reader */
    int uses;
    int threads, shared; /* on a device: of a block, and bytes that its launch provides; ... */
    int resident;        /* ... blocks that a core should have room for; 0: as may be */
    int sides, words;    /* ... kernels that one launch takes along at most; arguments of all ... */
    int boxes;           /* ... and descriptions of tensors behind those */
    const int *part;     /* ... by side the function whose body it takes; NULL: all its own */
    bool body;           /* ... is its text a body, of one launch or more with sides? */
    int number;          /* ... in the image; -1: it is not launched by itself */
} CFunction;

/* What a kernel does to a container; `serial`: on thread 0. */
typedef struct ContUse {
    int cont;
    bool write, serial;
} ContUse;
typedef VEC(ContUse) ContUses;

typedef struct CProgram CProgram;

/* Where a target's kernels run. On a device one thread walks the program and launches them: memory
 * is the device's, and what this process must see of it is asked for (runtime/device.h). */
typedef struct CHost {
    const CForm *form;
    bool device;
    void (*launch)(CProgram *p, int kernel, int phase);
    void (*tables)(CProgram *p); /* what the program says of its kernels */
    /* Is the kernel launched without a text of ours? NULL: none is. */
    bool (*apart)(const Kernel *kernel);
    /* The function by which a call runs on the device, with its _scratch; NULL: it runs here. */
    const char *(*call)(const Flow *flow, const Call *call);
} CHost;
extern const CHost c_host, c_host_checked;

struct CProgram {
    const CHost *host;
    Arena *arena;
    Ctx *ctx;
    const Flow *flow;
    DimEnv env; /* of the flow's symbols */
    const Program *program;
    const Machine *machine;
    const EmitOptions *options;
    VEC(CFunction) function;
    CKernel **kernel;  /* by kernel of the flow */
    int **phase;       /* function numbers of its phases */
    int *first_kernel; /* by map: the first kernel whose root it is; -1 */
    int *beside;       /* on a device, by kernel: the next that its launch takes along, or -1 */
    int *with;         /* ... the one whose launch takes it along; itself where that is none */
    int *next;         /* ... the one that is launched behind it, or -1 */
    const Call **call; /* by call number, in the order of the text */
    int ncall, ccall;
    int64_t *cont_index;  /* in, out: position among the ports */
    Names names;          /* symbols as the function at hand sees them */
    Names place;          /* the same for addresses: what data decides stands in by its bound */
    Names shared;         /* and as thread 0 sees them when a call has just defined some */
    bool *late;           /* by symbol: not bound by an input */
    int nrequire, nrange; /* what is asked of inputs */
    bool *defined;        /* by symbol: late, and a call before here in the text defines it */
    int *heap;            /* by container: place on the heap, or -1 */
    int nheap;
    bool *behind; /* by container: written only once all of its size is known */
    int *when;    /* by output: WEIR_KNOWN, ... */
    bool *branch; /* by container: only a branch writes it */
    Text out;
    int indent;
    enum { AFTER_NOTHING, AFTER_SERIAL, AFTER_ALL } state; /* which threads did the last work */
    ContUses pending;                                      /* of kernels, since the last barrier */
    bool known; /* all work since the last barrier is in `pending` */
    bool alone; /* in a loop that thread 0 does by itself */
    int fresh;
};

void program_line(CProgram *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int kernel_root(const Kernel *k); /* emit_program.c: the map that it is launched for, its last */
const char *kernel_word(const CProgram *p);           /* how functions of kernels begin */
const char *c_version(Arena *arena, const char *cpu); /* its name as a part of others */
bool is_lesser(const CProgram *p); /* one of several, and not the one with the descriptor */
const char *c_string(Arena *arena, const char *text); /* quoted */
const char *c_bytes(Arena *arena, const char *text, int64_t n);
const char *c_comment(Arena *arena, const char *text); /* as it may stand in a comment */
int symbol_index(const CProgram *p, Dim sym);          /* in flow->symbol; -1 */

/* emit_tables.c */
typedef struct Binding {
    int from; /* WEIR_FROM_... */
    int port, dim;
    int64_t mul, add;
} Binding;
Binding bind_symbol(const CProgram *p, Dim sym);

/* emit_sizes.c */
bool is_unbounded(const CProgram *p, int symbol); /* late, and nothing bounds it before */
void prepare_symbols(CProgram *p);                /* late, heap, when, branch */
/* After a call: its symbols, those that memory was planned for within their bounds; then room for
 * what has its size from them. */
void define_symbols(CProgram *p, const Call *call);
/* Of a loop that counts its `turns`, `done` of them: room for one more row, where nothing bounds
 * them; and, behind the loop, what a call's symbols have. */
void begin_turn(CProgram *p, Dim turns, const char *done);
void define_turns(CProgram *p, Dim turns, const char *done);

/* emit_units.c: a program with its kernels printed; the heads of a unit that holds the program; a
 * unit with the helpers that it needs. */
CProgram program_open(Arena *arena, const Program *program, const Machine *m, const EmitOptions *o,
                      const CHost *host);
void put_runtime(CProgram *p, Text *out);
void put_unit(CProgram *p, const Helpers *helpers, const char *name, const char *body, Units *out);
const char *kernel_from(const CProgram *p, int kernel); /* for messages */
const char *address(CProgram *p, int cont);             /* an expression of type char * */
const char *dim_text(CProgram *p, Dim d);
/* Around what is timed when the program is profiled. */
void open_span(CProgram *p);
void close_span(CProgram *p, int what);

/* emit_sync.c: which threads have worked, and where they wait for one another. Of a map that copies
 * an input to memory that may be the input's own, and runs only where it is not, the alias; else
 * NULL. */
void sync_all(CProgram *p);    /* before work of all threads, or a read that decides the way */
void sync_serial(CProgram *p); /* before work of thread 0 that `pending` does not list */
void sync_kernel(CProgram *p, int kernel, bool serial); /* before a kernel's only phase */
void close_serial(CProgram *p); /* behind what thread 0 does alone; nobody has waited for it yet */
void worked(CProgram *p);       /* all threads did what `pending` does not list */
ContUses kernel_uses(const CProgram *p, int kernel, bool serial);
const Alias *unless_shared(const CProgram *p, int map);

/* emit_check.c: conditions, each with "&&" in front, that hold where containers lie in the memory
 * of the run; after a kernel, what it says of an access that strayed. Nothing without `--checked`.
 */
const char *check_containers(CProgram *p, const char *what, const int *cont, int n);
const char *check_kernel(CProgram *p, int kernel);
void check_task(CProgram *p, int kernel);

/* emit_program.c: functions `walkN`, `run`, `callN` (appended to p->out). */
/* The function that runs a call on the device; NULL: it runs here. */
static inline const char *call_on_device(const CProgram *p, const Call *call) {
    return p->host->device ? p->host->call(p->flow, call) : NULL;
}
/* May threads make parts of it, each with scratch of its own? */
bool call_apart(const CProgram *p, const Call *call);
int call_tensors(const Call *call); /* operands, and the most results its function may look at */
void emit_run(CProgram *p);
Dim cont_bytes(const CProgram *p, const Cont *c);

/* emit_tables.c: literal containers, which the walk reads; everything else of unit 0. */
void emit_literals(CProgram *p);
void emit_tables(CProgram *p);

#endif
