/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the CUDA target. */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include "compiler/targets/c/c_nest.h"
#include "compiler/targets/c/c_program.h"
#include "target.h"

/* Of a kernel whose tasks are threads: threads of a block, and blocks at most: with arrays in
 * memory fewer. */
enum { CUDA_TASK_THREADS = 128, CUDA_TASK_BLOCKS = 4096, CUDA_SCRATCH_BLOCKS = 64 };

/* Arguments of every kernel behind its buffers and symbols. */
enum { CUDA_OWN_WORDS = 3 };

extern const CForm cuda_form;

/* A step of warps' threads together, and the helpers of cuda.in that spell it: loads of operands
 * as their elements lie along the reduced dim, or across it ("": word by word, or, all of them, it
 * reads shared memory itself); the step. `types`: of c, a and b as PTX names them, where it is of
 * several warps, whose helpers emit_group.c makes. */
typedef struct CudaStep {
    WarpStep row;
    const char *along_a, *across_a, *along_b, *across_b, *multiply, *types;
} CudaStep;
const CudaStep *target_cuda_step(const char *name); /* NULL: unknown */
const CudaStep *target_cuda_step_at(int i);         /* all of them; NULL behind the last */
/* The step of one warp that multiplies the same. */
const CudaStep *target_cuda_alone(const CudaStep *group);
/* FLOP a second of all cores, by steps of a warp and of several (0: there are none), and by plain
 * ones. */
typedef struct StepRates {
    double warp, group, plain;
} StepRates;
void target_cuda_steps(Machine *m, const StepRates *rates); /* fills in m->step */

/* A `use` block: its loops, the one over columns (n) only of a step of several warps, around one
 * body c = fma(a, b, c). */
typedef struct CudaUse {
    const CudaStep *how;
    const Stmt *q, *n, *h, *l;
    const Access *a, *b, *c;
} CudaUse;

/* emit_warp.c */
CudaUse cuda_use_of(const Stmt *s);
void cuda_use_loops(CNest *c, const CudaUse *x); /* names for their variables */
void cuda_use(CNest *c, const Stmt *s);
/* Declares a fragment: of each thread the pairs that it has, as words, four for each 16 rows and
 * columns in the order in which a step takes them. Which word of a thread an access begins in. */
void cuda_fragment(CNest *c, const Stmt *s);
int64_t cuda_fragment_word(CNest *c, const Access *a);
/* emit_group.c: a step of several warps; what it calls, as pieces of helpers */
void cuda_group(CNest *c, const CudaUse *x);
/* Before a `steps` block, and where it was waited for. */
void cuda_settle(CNest *c, const Stmt *steps, bool before);
const char *cuda_group_helpers(Arena *arena);
/* emit_box.c: a `use` of COPY_BOX. Of a kernel's statements: which copies the engine does, and how
 * many stages that takes; what stands in front of its threads. Parameters for what is copied; on
 * the host, these as the runtime takes them. */
void cuda_box(CNest *c, const Stmt *s);
void cuda_find_boxes(CNest *c, const Stmts *stmts);
void cuda_open_stages(CNest *c);
void cuda_box_parameters(CNest *c);
const char *cuda_boxes(CProgram *p, int kernel, const CPhase *phase);
/* emit_depend.c: must one of two kernels be done before the other begins? */
bool cuda_depend(const CProgram *p, int a, int b);
/* emit_sides.c: which launches take others along; which functions are launched, and how many. */
void cuda_join_launches(CProgram *p);
int cuda_launched(const CProgram *p);
/* Words: arguments of a kernel without scratch. */
int cuda_words(const CKernel *ck);
enum { CUDA_SIDES = 8 }; /* of a launch at most, itself one */
/* emit_body.c: a kernel of several sides, each of which calls a text as `bodyN` with its own words;
 * such a text. Tensors that a launch describes: its own, and those of what it takes along. */
const char *cuda_sides(const CProgram *p, int function);
void cuda_body(const CProgram *p, int function, Text *out);
const char *cuda_boxes_of(CProgram *p, int kernel, int phase);
/* emit_follow.c: seconds of a kernel, about; is a launch of so many brief? Which launch stands
 * behind each. Of a kernel's phase, a sum of bits: the blocks of the one behind come as soon as all
 * its own are on cores and go on, or are there (at once), else when these leave; its weights come
 * to the cache while the one ahead is under way. */
double cuda_seconds(const CProgram *p, int kernel);
bool cuda_brief(double seconds);
enum { CUDA_NEXT_BEGINS = 1, CUDA_WEIGHTS_AHEAD = 2, CUDA_NEXT_AT_ONCE = 4 };
void cuda_link_launches(CProgram *p);
int cuda_following(const CProgram *p, int kernel, int phase);
/* emit_library.c: was the kernel given to a library? Its call; the rows of all such calls, as
 * `device_products` and `device_convolutions`; the image's members for them. */
bool cuda_apart(const Kernel *kernel);
void cuda_library_call(CProgram *p, int kernel);
void cuda_library_rows(const CProgram *p, Text *out);
const char *cuda_library_members(const CProgram *p);
/* emit_calls.c: of the kernels that calls of the program need, behind its own, the rows and, by
 * WEIR_TOOL_..., their numbers; how many; their names, each with a space in front. */
void cuda_tool_rows(const CProgram *p, Text *kernels, Text *numbers);
int cuda_tool_count(const CProgram *p);
void cuda_tool_names(const CProgram *p, Text *out);
/* emit_lanes.c: may the kernel read memory that it writes? */
bool cuda_reads_own(const CNest *c);
bool cuda_lanes(CNest *c, const Stmt *loop);
/* Statements that but load weights, in front of `follow`. */
void cuda_load_first(CNest *c, const Stmts *stmts);
bool cuda_store(CNest *c, const Access *to, CVal *v);

#endif
