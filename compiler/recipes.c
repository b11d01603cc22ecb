/* SPDX-License-Identifier: Apache-2.0 */
/* --recipe and --save-recipe: files of decisions around the passes (passes/recipe.h). */
#include "driver.h"

#include <string.h>

static bool is_skipped(const Driver *d, const char *pass) {
    for (int i = 0; i < d->skip.n; i++)
        if (!strcmp(d->skip.at[i], pass)) return true;
    return false;
}

static void skip(Driver *d, const char *pass) {
    if (!is_skipped(d, pass)) vec_push(d->arena, &d->skip, pass);
}

/* Passes that options and the recipe leave out; the recipe must be for this machine. */
Recipe *driver_read_recipe(Driver *d) {
    const Options *o = d->options;
    for (int i = 0; i < o->skip.n; i++) skip(d, o->skip.at[i]);
    if (!o->recipe) return NULL;
    Recipe *r = recipe_parse(d->arena, o->recipe, source_text(d->arena, o->recipe));
    if (r->cpu && strcmp(r->cpu, d->machine.name))
        recipe_refuse(
            r, 0,
            "it is for cpu \"%s\" only, this is \"%s\"; leave its line \"only\" out to try it",
            r->cpu, d->machine.name);
    if (r->version && strcmp(r->version, WEIR_VERSION))
        recipe_refuse(r, 0,
                      "it is of weir %s only, this is %s; leave its line \"only\" out to try it",
                      r->version, WEIR_VERSION);
    for (int i = 0; i < r->skip.n; i++) skip(d, r->skip.at[i].pass);
    return r;
}

const char *driver_recipe_text(Driver *d, RecipeNotes *notes) {
    Text out = {.arena = d->arena};
    text_printf(&out, "# decisions of weir " WEIR_VERSION " for %s\n", d->machine.name);
    for (int i = 0; i < d->skip.n; i++) text_printf(&out, "skip %s\n", d->skip.at[i]);
    text_put(&out, text_str(&notes->text));
    return text_str(&out);
}
