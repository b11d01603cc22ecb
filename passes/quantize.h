/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of pass `quantize`. */
#ifndef WEIR_PASSES_QUANTIZE_H
#define WEIR_PASSES_QUANTIZE_H

#include "passes/compose.h"

typedef struct Quantizing {
    Editing c; /* arena, flow, uses */
    const PassEnv *env;
    int *recoded; /* by container: the other 8-bit type's, or 0 */
    int nrecoded;
} Quantizing;

/* cvt(code) - zero, in i32. */
typedef struct CodeTerm {
    int code; /* a Val of an 8-bit type */
    int zero; /* a Val of i32, or -1 */
} CodeTerm;
bool code_term(const Body *b, int val, CodeTerm *t);

/* f32(i32(code) - zero) * scale in a body, or f32(code) * scale where codes are floats. */
typedef struct Decoded {
    CodeTerm term;
    int value; /* the Val of the difference, in i32; of a float code, in f32 */
    int scale; /* -1: none */
} Decoded;

/* A Val that may be computed anew wherever the map's result dims stand: constants and reads without
 * else at indices that use none of the reduced dims, converted. */
bool is_outer_val(const Map *m, int val);
/* Copies such a Val, with dims replaced. */
int copy_outer_val(Body *to, const Body *from, int val, const DimSubst *subst, int n);

/* Maps made behind or before `map` in its list. */
void insert_after(Quantizing *q, int map, const Items *made);
void insert_before(Quantizing *q, int map, const Items *made);

/* A container like `cont`, of type `to`, and in front of `map` the map that makes its elements: Val
 * `val` in another type, as the function says. */
typedef int CodeFn(Body *b, int val, DType to);
int codes_as(Quantizing *q, int map, int cont, const char *what, DType to, CodeFn *code);

/* A new map over the elements that `to` is written at: dims for its dims. */
typedef struct Over {
    Map *map;
    DimSubst subst[MAP_DIMS]; /* dims of the old map that the access uses -> dims of the new one */
    int nsubst;
    Dim at[RANK_MAX];
} Over;
void map_over_access(Quantizing *q, const Map *m, const Access *a, const char *name, Items *into,
                     Over *over);
/* A container for what m writes at `to`, but groups and their channels are dims of their own; *at:
 * where m writes there. And what the map over `to` reads of it. */
void codes_like(Quantizing *q, const Map *m, const Access *to, const char *name, DType type,
                Access *at);
int read_over(Quantizing *q, const Over *over, const Access *at);

/* Is it a float of 8 bits that steps of the machine multiply? */
bool is_float_code(const Quantizing *q, DType t);
/* quantize_sum.c: sums of products of decoded codes become sums of codes, scaled behind. */
void sum_decoded(Quantizing *q);
/* The map that alone writes `cont`, whole, decoding the code it reads; NULL when there is none. */
const Map *decoder_of(const Quantizing *q, int cont, Decoded *d);
/* Is being outside of what decoder m writes, where `at` reads it, being outside of what its code's
 * read reads? */
bool decodes_same_box(const Quantizing *q, const Map *m, const Access *from, const Access *at);
/* The code that decoder p makes of it what `read` reads. */
Access code_access(const Quantizing *q, const Map *p, const Decoded *d, const Access *read);
/* A BodyReadFn: reads of decoded containers read codes, and decode. */
int decode_read(void *user, Body *b, const Val *read);

/* quantize_open.c: >= 0 where m has so few terms that no sum of products of codes leaves i32. */
Dim terms_left(const Flow *flow, const Map *m);
/* Puts a choice in the place of map number `map` and of what follows it element by element. The map
 * that stands for it where its terms are few, to be made one of codes. */
int choose_by_terms(Quantizing *q, int map);

/* quantize_groups.c: a sum of products whose results are channels of groups, by its dims. */
typedef struct Grouped {
    int groups, outputs, terms; /* -1: there are none */
    int64_t wider;              /* so many groups should become one */
} Grouped;
/* Are results plain, or channels of groups that are worth an instruction? */
bool sums_groups(const Quantizing *q, const Map *m, Grouped *g);
/* Makes groups wider in a map of codes, of which `weights` are theirs; false: they should not be,
 * or not one code stands for 0. */
bool widen_groups(Quantizing *q, int map, const Grouped *g, const CodeTerm *weights);

/* quantize_scale.c: does a map make a function of one container's codes and nothing else? It has
 * few values, which `tabulate` makes cheap: nothing has to round otherwise for that. */
bool of_one_code(const Quantizing *q, const Map *m);
/* Constant scales in front of codes go into constants that stand before them. */
void take_in_scales(Quantizing *q);

/* quantize_order.c: greatest and least codes instead of decoded ones; codes that are decoded and
 * become themselves again are copied. */
void keep_codes(Quantizing *q);

/* quantize_zero.c: sums of (a - za)*(b - zb) become sums of a*b, for an instruction of the table.
 */
/* Do steps of warps multiply codes, of any sign? */
bool code_steps(const Machine *machine);
void split_zero_points(Quantizing *q);

/* quantize_rows.c: rows of products by weights that are codes in blocks, each with a scale, become
 * codes too, where the map may. */
void code_rows(Quantizing *q);

#endif
