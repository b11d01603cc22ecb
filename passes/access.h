/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about accesses that fuse, layout and schedule share. */
#ifndef WEIR_PASSES_ACCESS_H
#define WEIR_PASSES_ACCESS_H

#include "passes/pass.h"

enum { MAP_DIMS = RANK_MAX * 2 };
typedef VEC(int) IntVec;

/* Storage elements stepped over when `dim` grows by one inside an aligned block of `block`: 0 when
 * the access does not use it, NULL when they are not the same for all (or not known). */
Dim access_step(const Flow *flow, const Map *map, const Access *a, int dim, int64_t block);
/* The same where that is a number, else INT64_MAX. */
int64_t access_stride(const Flow *flow, const Map *map, const Access *a, int dim, int64_t block);

/* What the map first reads of the container, if that is a row of neighbours along all of dim `lane`
 * wherever the dims in `block` stand; else NULL. */
const Val *access_row(const Flow *flow, const Map *m, int cont, int lane, const bool *block);

/* Lanes along `dim` are stored 2 to 4 apart; the dim of which as many steps fill what lies between:
 * rows are stored in turns. Or -1. */
int access_interleaves(const Flow *flow, const Map *map, const Access *to, int dim, int lanes);
/* Lanes along `dim` are stored in words of so many side by side, which lie apart; the dim that
 * fills what lies between, word by word. Or -1. */
int access_words(const Flow *flow, const Map *map, const Access *to, int dim, int lanes,
                 int64_t *word);
enum { TURNED_PRIMS = 16 }; /* operations at most of maps whose rows are turned in registers */

/* Primitives of a map's body. */
int map_prims(const Map *map);
/* Where lanes along `dim` take elements of one vector of what is accessed, not in equal steps:
 * which one the first takes; else NULL. */
Dim access_in_block(const Flow *flow, const Map *map, const Access *a, int dim, int lanes);
double gather_cost(int lanes); /* of lanes that lie apart, in vector loads */
/* Cost of running a map along `dim` in lanes, in vector loads and stores: reads for every
 * iteration, a write (or a fold of the lanes) for every result; lanes that idle in the last chunk
 * count. `packs`: parameters can be laid out to suit. */
double lane_cost(const Flow *flow, const Map *map, int dim, int lanes, bool packs);
/* How many times its work a dim takes in lanes, some of which idle in the last vector. */
double idle_lanes(int64_t extent, int64_t lanes);

/* The dim that is exactly index k of an access, or -1. */
int access_dim(const Map *map, const Access *a, int k);
/* The dim of `maker` that is dim d of a map by what the map reads of it; or -1. */
int map_same_dim(const Map *map, int d, const Map *maker);
/* The index that is exactly dim d, which no other index uses; or -1. */
int access_plain(const Map *map, const Access *a, int d);
/* Is the access a plain permutation of distinct dims that covers every dim of extent other than 1?
 */
bool access_covers(const Map *map, const Access *a);

/* The index that is stored innermost where the container's indices are stored as they are, in any
 * order, without margins; else -1. */
int cont_innermost(const Flow *flow, int cont);

/* Elements from row to row in memory of a kernel's own: rows of several vectors begin with a line,
 * and those that would meet again in a few sets of a cache lie a line further apart. */
int64_t scratch_row(int64_t elements, int64_t lanes);

/* Constant extent, or `otherwise`. */
int64_t extent_or(Dim extent, int64_t otherwise);
int64_t map_extent(const Map *map, int dim, int64_t otherwise);
/* usual.c: the extent when inputs have the sizes that such inputs usually have: what costs and
 * choices count by, never what they rely on. */
int64_t usual_extent(const Flow *flow, Dim extent);
/* The same when sizes that are not known have so much of the usual one. */
int64_t sized_extent(const Flow *flow, Dim extent, double part);
int64_t map_usual(const Flow *flow, const Map *map, int dim);
double map_usual_volume(const Flow *flow, const Map *map);
/* Iterations of a map, unknown extents counted as `otherwise`. */
double map_volume(const Map *map, int64_t otherwise);

/* contraction.c: rows of a contraction (ROLE_M); indices of all dims of a role as inputs usually
 * have them; the longest dim of a role, or -1. */
double contraction_rows(const Map *m, const Contraction *r, int64_t otherwise);
double contraction_usual(const Flow *flow, const Map *m, const Contraction *r, DimRole role);
int contraction_longest(const Map *m, const Contraction *r, DimRole role);
/* Does the map meet elements of the container several times by one index of its dims each (a window
 * that slides)? */
bool access_repeats(const Flow *flow, const Map *m, const Access *a);
/* The same file: does an index of the access, and no other, count the channels of each group by
 * this dim, groups * its extent + channel? */
bool access_counts(const Flow *flow, const Map *m, const Access *a, int groups, int channel);

bool map_is_reduction(const Map *map);
bool has_seq(const Map *map); /* does a dim run in order? */
/* Straight-line code that writes several elements of one container at every index. */
bool map_straight_line(const Map *map);
/* Does the access use a value of the map's body as an index? */
bool access_by_value(const Map *map, const Access *a);
bool map_reads_by_value(const Map *map); /* some read does */
/* lanes.c: does it read one of at least 256 bytes that a byte of the map's body picks? */
bool access_looks_up(const Flow *flow, const Map *map, const Access *a);
bool map_reads(const Map *map, int cont);
bool map_writes(const Map *map, int cont);
/* The position of the kernel's first map that writes the container; -1: none does. */
int kernel_writer(const Flow *flow, const Kernel *kernel, int cont);
/* Is Val v of a map's body the same at all indices of its reduced dims but `dim` (-1: of all)? */
bool val_fixed(const Map *map, int v, int dim);
/* The read whose conversion to that type Val v is, or -1. */
int read_converted(const Body *b, int v, DType to);
/* Does an index of the access use dim d of the map? */
bool access_uses(const Map *map, const Access *a, int d);
/* Does it use a dim that the map reduces? */
bool access_reduced(const Map *map, const Access *a);
/* Does an index of the access use an output dim and a reduced one? Then windows slide over it. */
bool access_slides(const Map *map, const Access *a);
/* By container: the only map that writes it, or -1 (none, several, or a call or region does). */
int *flow_writers(Arena *arena, const Flow *flow);

/* A dim of an operand that a tile takes whole beside its lanes has at most so many indices. */
enum { INNER_MOST = 8 };
/* Codes of less than a byte lie in words of so many bits: one word for each lane. */
enum { WORD_BITS = 32 };
/* Panels are so many vectors wide at most. */
enum { PANEL_VECTORS = 4 };
/* Do multiply-adds outrun the second cache, which panels come from again for each tile of rows?
 * Such machines want large tiles, though totals of long sums do not stay in registers then; on
 * others small ones hide as much. */
bool panels_cost(const Machine *machine);
/* Machines with so many vector registers hold what tiles read beside their sums. */
enum { MANY_REGISTERS = 32 };
/* Vector registers that a tile of m's sums may count on, each with as many lanes as of f32: half of
 * them where a vector of sums takes two. */
int sum_registers(const Machine *machine, const Map *m);
/* Width of a register tile's panel along m's dim `lane`: a few vectors. `grouped`: an instruction
 * of the machine's table takes the products. */
int64_t panel_width(const Machine *machine, const Flow *flow, const Map *m, int lane, bool grouped);
/* Width of a register tile along a lane dim: that of the panels its weights lie in, if registers
 * have room, else panel_width. Channels that each have their own window lie in panels of one
 * vector, of which a tile may take several. */
int64_t tile_width(const Machine *machine, const Flow *flow, const Map *m, int lane);

/* Bytes of all weights of a flow. */
double flow_weight_bytes(const Flow *flow);
/* Seconds of a cycle, in which a core does two multiply-adds a lane. */
double machine_cycle(const Machine *machine);
/* Bytes a second of the level that so many bytes stay in between two uses. */
double machine_bandwidth(const Machine *machine, double bytes);
/* Seconds that a kernel more takes, on a machine of blocks of threads. */
#define LAUNCH_SECONDS 2e-6
/* Bytes of one row that maps of a kernel may hand on: with a block of rows they stay in the cache
 * that a core has for itself. */
int64_t row_budget(const Machine *machine);
/* Rows of a contraction that run together in a kernel over rows, at most. */
enum { ROW_BLOCK = 8 };

/* Leaves in the flow's table just the maps that stand in its items, in program order. Before there
 * are kernels. */
void flow_compact(Flow *flow);

/* A kernel of these maps, named after its number and the last of them, appended to the flow. */
Kernel *kernel_new(Flow *flow, const Machine *machine, const int *maps, int n);

/* Lines. `dims` are dim numbers of the kernel's map at `pos`. */
Line *kernel_line(Flow *flow, Kernel *kernel, LineKind kind, int pos);
void line_dim(Flow *flow, Line *line, const Map *map, int dim, int64_t size);
void kernel_keep(Flow *flow, Kernel *kernel, int pos, int cont, Storage storage);

/* How the dims of a kernel's maps correspond to its root's: at[pos][root dim] is the dim of map pos
 * that every access chain ties to it, or -1. */
typedef struct Alignment {
    int n;
    int (*at)[MAP_DIMS];
} Alignment;
Alignment kernel_align(Arena *arena, const Flow *flow, const int *maps, int n);

/* In a map with sequential dims: does a step need what steps of other results left? */
bool map_needs_others(const Map *m);

#endif
