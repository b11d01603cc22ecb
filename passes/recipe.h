/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes: what the passes decided, as text that a person can edit (recipe.c).
 *
 * A pass that chooses asks here first: `recipe_decide` gives what the recipe says, or what the pass
 * would choose, and notes it for a recipe that is being saved. What a recipe leaves out is chosen
 * as ever. A decision that cannot hold is refused with E_RECIPE at its line. */
#ifndef WEIR_PASSES_RECIPE_H
#define WEIR_PASSES_RECIPE_H

#include "ir/lex.h"
#include "passes/pass.h"

/* `PASS NAME CHOICE`: what the pass does with the map or container of that name. */
typedef struct Decision {
    const char *pass, *name, *choice; /* interned */
    int line;
    bool asked;
} Decision;

/* `kernel NAME = MAP...` with its lines in braces, or without, to have them chosen. */
typedef struct RecipeKernel {
    VEC(const char *) map; /* interned */
    int line;
    bool has_lines, used;
    Lex lines; /* stands on the brace */
} RecipeKernel;

typedef struct Skip {
    const char *pass;
    int line;
} Skip;

typedef struct Recipe {
    Ctx *ctx;
    const char *file;
    const char *cpu, *version; /* `only cpu NAME`, `only weir VERSION`; NULL: any */
    VEC(Skip) skip;
    VEC(Decision) decision;
    VEC(RecipeKernel) kernel;
} Recipe;

/* Decisions as they are made, in order, and then the kernels: the text of a recipe. */
typedef struct RecipeNotes {
    Text text;
} RecipeNotes;

/* The text must outlive the recipe. */
Recipe *recipe_parse(Arena *arena, const char *file, const char *text);
_Noreturn void recipe_refuse(const Recipe *recipe, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The decision about a name that this pass takes, or NULL. */
Decision *recipe_find(const PassEnv *env, const char *pass, const char *name);
/* The number of the recipe's choice among `words` (NULL at the end), or else `chosen`; noted. */
int recipe_decide(const PassEnv *env, const char *pass, const char *name, const char *const *words,
                  int chosen);
void recipe_note(const PassEnv *env, const char *pass, const char *name, const char *choice);
void recipe_note_kernels(const PassEnv *env, const Flow *flow);

/* The recipe's kernel of just these maps, or NULL. */
RecipeKernel *recipe_kernel(const PassEnv *env, const Flow *flow, const Kernel *kernel);
/* Its lines for the kernel, named things being there; refused when they are not. */
void recipe_lines(const PassEnv *env, Flow *flow, Kernel *kernel, RecipeKernel *from);

/* Refuses what the recipe says of a pass that never asked for it. */
void recipe_all_asked(const PassEnv *env, const char *pass, const Flow *flow);
/* Verifies the nests of the recipe's kernels. */
void recipe_verify_nests(const PassEnv *env, const Program *program);

#endif
