/* SPDX-License-Identifier: Apache-2.0 */
/* Patience diff (Bram Cohen): lines that stand once in each text are matched, as many as keep their
 * order; between two matches the same is done again with what is unique there, and equal lines at
 * both ends match. IR texts have few repeated lines, so this finds what a reader would. */
#include "tools/weir/diff.h"

#include <string.h>

enum { AROUND = 3 };

typedef struct Side {
    VEC(const char *) line; /* interned */
    int *match;             /* by line: the other side's, or -1 */
} Side;

typedef struct Diff {
    Arena *arena;
    Side a, b;
} Diff;

static void split(Arena *arena, Ctx *ctx, Side *s, const char *text) {
    while (*text) {
        size_t n = strcspn(text, "\n");
        vec_push(arena, &s->line, intern_n(ctx, text, n));
        text += n + (text[n] == '\n');
    }
    s->match = NEW_ARRAY(arena, int, s->line.n + 1);
    for (int i = 0; i < s->line.n; i++) s->match[i] = -1;
}

static void match(Diff *d, int i, int j) {
    d->a.match[i] = j;
    d->b.match[j] = i;
}

/* How often a line stands in a stretch, and where last, on each side. */
typedef struct Seen {
    int count[2], at[2];
} Seen;

static Table *count_lines(Diff *d, int a0, int a1, int b0, int b1) {
    Table *seen = table_new(d->arena);
    for (int side = 0; side < 2; side++)
        for (int i = side ? b0 : a0; i < (side ? b1 : a1); i++) {
            const char *line = side ? d->b.line.at[i] : d->a.line.at[i];
            Seen *s = table_get(seen, line);
            if (!s) table_put(seen, line, s = NEW(d->arena, Seen));
            s->count[side]++;
            s->at[side] = i;
        }
    return seen;
}

typedef struct Pair {
    int a, b, before; /* before: the pair that comes before this one in the best row; -1 */
} Pair;
typedef VEC(Pair) Pairs;

/* The longest row of unique common lines that rises on both sides (patience sorting). */
static void rising(Diff *d, Pairs *pairs, int a0, int a1, const Table *seen) {
    VEC(int) top = {0};
    for (int i = a0; i < a1; i++) {
        const Seen *s = table_get(seen, d->a.line.at[i]);
        if (s->count[0] != 1 || s->count[1] != 1) continue;
        int lo = 0, hi = top.n;
        while (lo < hi) {
            int mid = (lo + hi) / 2;
            if (pairs->at[top.at[mid]].b < s->at[1])
                lo = mid + 1;
            else
                hi = mid;
        }
        vec_push(d->arena, pairs, (Pair){i, s->at[1], lo ? top.at[lo - 1] : -1});
        if (lo == top.n) vec_push(d->arena, &top, 0);
        top.at[lo] = pairs->n - 1;
    }
    int last = top.n ? top.at[top.n - 1] : -1;
    for (; last >= 0; last = pairs->at[last].before) match(d, pairs->at[last].a, pairs->at[last].b);
}

static void compare(Diff *d, int a0, int a1, int b0, int b1) {
    while (a0 < a1 && b0 < b1 && d->a.line.at[a0] == d->b.line.at[b0]) match(d, a0++, b0++);
    while (a0 < a1 && b0 < b1 && d->a.line.at[a1 - 1] == d->b.line.at[b1 - 1]) match(d, --a1, --b1);
    if (a0 == a1 || b0 == b1) return;
    Pairs pairs = {0};
    rising(d, &pairs, a0, a1, count_lines(d, a0, a1, b0, b1));
    int a = a0, b = b0;
    bool some = false;
    for (int i = a0; i < a1; i++) {
        if (d->a.match[i] < 0) continue;
        some = true;
        compare(d, a, i, b, d->a.match[i]);
        a = i + 1, b = d->a.match[i] + 1;
    }
    if (some) compare(d, a, a1, b, b1);
}

/* ---- printing -------------------------------------------------------------------------------- */

/* A step of the way through both: kept, gone (' ', '-') or new ('+'). */
typedef struct Step {
    char kind;
    int a, b; /* lines before this step */
} Step;
typedef VEC(Step) Steps;

static Steps walk(const Diff *d) {
    Steps steps = {0};
    for (int a = 0, b = 0; a < d->a.line.n || b < d->b.line.n;) {
        bool gone = a < d->a.line.n && d->a.match[a] < 0;
        bool fresh = !gone && b < d->b.line.n && d->b.match[b] < 0;
        vec_push(d->arena, &steps, (Step){gone ? '-' : fresh ? '+' : ' ', a, b});
        a += !fresh;
        b += !gone;
    }
    return steps;
}

static void put_hunk(Text *out, const Diff *d, const Steps *steps, int from, int to) {
    int gone = 0, fresh = 0;
    for (int i = from; i < to; i++)
        gone += steps->at[i].kind != '+', fresh += steps->at[i].kind != '-';
    text_printf(out, "@@ -%d,%d +%d,%d @@\n", steps->at[from].a + (gone > 0), gone,
                steps->at[from].b + (fresh > 0), fresh);
    for (int i = from; i < to; i++) {
        const Step *s = &steps->at[i];
        text_printf(out, "%c%s\n", s->kind,
                    s->kind == '+' ? d->b.line.at[s->b] : d->a.line.at[s->a]);
    }
}

bool diff_put(Text *out, Ctx *ctx, const char *a, const char *a_name, const char *b,
              const char *b_name) {
    Diff d = {.arena = out->arena};
    bool differ = false;
    split(d.arena, ctx, &d.a, a);
    split(d.arena, ctx, &d.b, b);
    compare(&d, 0, d.a.line.n, 0, d.b.line.n);
    Steps steps = walk(&d);
    for (int i = 0, shown = 0; i < steps.n; i++) {
        if (steps.at[i].kind == ' ') continue;
        if (!differ) text_printf(out, "--- %s\n+++ %s\n", a_name, b_name);
        differ = true;
        int from = i - AROUND > shown ? i - AROUND : shown, to = i, quiet = 0;
        while (to < steps.n && quiet <= 2 * AROUND)
            quiet = steps.at[to++].kind == ' ' ? quiet + 1 : 0;
        to -= quiet > AROUND ? quiet - AROUND : 0;
        put_hunk(out, &d, &steps, from, to);
        i = (shown = to) - 1;
    }
    return differ;
}
