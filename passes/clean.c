/* SPDX-License-Identifier: Apache-2.0 */
/* Pass `clean`: data that only changes its place is not moved.
 *
 * Maps over nothing go first. Then eight rewrites run until nothing changes. Dims whose accesses
 * divide by a factor are split by it, so that merged axes become plain dims again. A view (a map
 * that copies) and a constant are composed into the accesses of their readers. What a loop carries
 * and hands on as it got it is read where it stands. A copy that remains
 * (into an output, a concatenation) is written by its source's producers in its place. Sums that
 * are the same along a dim are made once. Assignments to slices become maps. Containers of
 * contractions whose split dims share an operand get their dims. Maps that nobody needs are
 * dropped. Maps that compute stay as they are: joining these is `fuse`'s work. */
#include "passes/clean.h"

/* ---- the pass ------------------------------------------------------------------------------- */

typedef bool EditFn(Editing *c, int map);

/* Edits that change who writes what: uses are counted anew behind each. */
static bool edit_all(Editing *c, EditFn *edit) {
    bool changed = false;
    for (int m = 0; m < c->flow->map.n; m++)
        if (edit(c, m)) {
            changed = true;
            uses_count(c);
        }
    return changed;
}

static bool clean_round(Editing *c) {
    bool changed = false;
    for (int m = 0; m < c->flow->map.n; m++) changed |= split_dims(c, c->flow->map.at[m]);
    uses_count(c);
    for (int m = 0; m < c->flow->map.n; m++) changed |= inline_view(c, m);
    drop_unneeded(c);
    changed |= assign_boxes(c);
    changed |= drop_constant_carries(c);
    changed |= edit_all(c, forward_copy);
    drop_unneeded(c);
    changed |= edit_all(c, make_once);
    for (int m = 0; m < c->flow->map.n; m++) changed |= split_shared(c, m);
    return changed;
}

Flow *pass_clean(Arena *arena, const Flow *flow, const PassEnv *env);
Flow *pass_clean(Arena *arena, const Flow *flow, const PassEnv *env) {
    Editing c = {.arena = arena,
                 .flow = flow_clone(arena, flow),
                 .blocks = env->machine && env->machine->block_threads};
    drop_empty(&c);
    for (int round = 0; round < 16 && clean_round(&c); round++) continue;
    choose_by_sizes(&c);
    return c.flow;
}
