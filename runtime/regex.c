/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern becomes a program of an automaton without backtracking (Thompson 1968, as in RE2): all
 * the places where a match may stand move over the text together, so time is at most text times
 * program. Back references and look-around do not exist in this syntax. `{m,n}` repeats its
 * operand, up to 1000 times, and a program has at most PROGRAM_MAX steps.
 *
 * Letters are code points. Flags i, s, m, U in groups `(?i)`, `(?i:...)`; which match is found does
 * not matter for a full match, so lazy forms mean the same as greedy ones. */
#include "runtime/regex.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRAM_MAX = 1 << 16, REPEAT_MAX = 1000, DEPTH_MAX = 200, BROKEN = 0x110000 };

typedef enum { STEP_SET, STEP_SPLIT, STEP_JUMP, STEP_CHECK, STEP_MATCH } StepKind;
typedef enum { AT_START, AT_END, LINE_START, LINE_END, WORD, NO_WORD } Check;

typedef struct Range {
    uint32_t lo, hi;
} Range;

typedef struct Step {
    StepKind kind;
    int a, b;          /* SPLIT: both ways, JUMP: a; CHECK: a is which */
    int first, ranges; /* SET: in regex.range */
    int negated, fold; /* SET: the complement; either case */
} Step;

struct weir_regex {
    Step *step;
    int n, room;
    Range *range;
    int ranges, range_room;
    int *memory;     /* of the four below */
    int *now, *next; /* steps that wait for a letter */
    int *mark;       /* by step: the round it was last added in */
    int *stack;      /* a step is visited once a round and leads to two */
};

/* ---- letters --------------------------------------------------------------------------------- */

uint32_t weir_utf8_next(const char **at, const char *end) {
    const uint8_t *p = (const uint8_t *)*at;
    int64_t left = end - *at;
    int more = *p < 0x80                 ? 0
               : *p >= 0xc2 && *p < 0xe0 ? 1
               : *p >= 0xe0 && *p < 0xf0 ? 2
               : *p >= 0xf0 && *p < 0xf5 ? 3
                                         : -1;
    uint32_t letter = *p;
    if (more > 0) letter &= 0x3fu >> more;
    int ok = more >= 0 && more < left;
    for (int i = 1; ok && i <= more; i++) {
        ok = (p[i] & 0xc0) == 0x80;
        letter = letter << 6 | (p[i] & 0x3f);
    }
    ok = ok && letter < BROKEN && (letter < 0xd800 || letter > 0xdfff) &&
         letter >= (more == 3   ? 0x10000u
                    : more == 2 ? 0x800u
                                : 0u);
    *at += ok ? more + 1 : 1;
    return ok ? letter : (uint32_t)BROKEN + *p;
}

char *weir_utf8_put(char *at, uint32_t c) {
    if (c >= BROKEN) return *at = (char)(c - BROKEN), at + 1;
    if (c < 0x80) return *at = (char)c, at + 1;
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *at++ = (char)(c >> (6 * more) | (0xf00u >> (more + 1) & 0xff));
    while (more--) *at++ = (char)((c >> (6 * more) & 0x3f) | 0x80);
    return at;
}

/* ---- building -------------------------------------------------------------------------------- */

typedef struct Parse {
    weir_regex *r;
    const char *at, *end;
    const char *reason; /* of the first failure */
    int depth, fold, dot_all, lines;
} Parse;

static void wrong(Parse *p, const char *reason) {
    if (!p->reason) p->reason = reason;
    p->at = p->end;
}

static void *room_for(Parse *p, void *at, int n, int *room, size_t size) {
    if (n < *room) return at;
    int more = *room ? 2 * *room : 64;
    void *new = more > 4 * PROGRAM_MAX ? NULL : realloc(at, (size_t)more * size);
    if (!new) return wrong(p, "a regular expression is too large"), at;
    *room = more;
    return new;
}

static int emit(Parse *p, Step s) {
    weir_regex *r = p->r;
    r->step = room_for(p, r->step, r->n, &r->room, sizeof s);
    if (r->n >= PROGRAM_MAX) wrong(p, "a regular expression is too large");
    if (p->reason) return 0;
    r->step[r->n] = s;
    return r->n++;
}

static void add_range(Parse *p, uint32_t lo, uint32_t hi) {
    weir_regex *r = p->r;
    r->range = room_for(p, r->range, r->ranges, &r->range_room, sizeof *r->range);
    if (!p->reason) r->range[r->ranges++] = (Range){lo, hi};
}

/* Opens a hole before step `at`: what follows moves one on. */
static void insert(Parse *p, int at, Step s) {
    weir_regex *r = p->r;
    emit(p, s);
    if (p->reason) return;
    memmove(r->step + at + 1, r->step + at, (size_t)(r->n - 1 - at) * sizeof s);
    for (int i = at + 1; i < r->n; i++) {
        Step *t = &r->step[i];
        if (t->kind == STEP_SPLIT || t->kind == STEP_JUMP) t->a += t->a >= at;
        if (t->kind == STEP_SPLIT) t->b += t->b >= at;
    }
    r->step[at] = s;
}

/* ---- classes --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    Range range[4];
} classes[] = {
    {"d", {{'0', '9'}}},
    {"w", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"s", {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}},
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"ascii", {{0, 127}}},
    {"blank", {{'\t', '\t'}, {' ', ' '}}},
    {"cntrl", {{0, 31}, {127, 127}}},
    {"digit", {{'0', '9'}}},
    {"graph", {{'!', '~'}}},
    {"lower", {{'a', 'z'}}},
    {"print", {{' ', '~'}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", {{'\t', '\r'}, {' ', ' '}}},
    {"upper", {{'A', 'Z'}}},
    {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

/* The letters of a class, or all others. */
static int add_class(Parse *p, const char *name, size_t n, int negated) {
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strlen(classes[i].name) != n || memcmp(classes[i].name, name, n) != 0) continue;
        uint32_t from = 0;
        for (int k = 0; k < 4 && (k == 0 || classes[i].range[k].hi); k++) {
            Range r = classes[i].range[k];
            if (!negated)
                add_range(p, r.lo, r.hi);
            else if (r.lo > from)
                add_range(p, from, r.lo - 1);
            from = r.hi + 1;
        }
        if (negated) add_range(p, from, UINT32_MAX);
        return 1;
    }
    return 0;
}

static uint32_t hex(Parse *p) {
    uint32_t v = 0;
    int braces = p->at < p->end && *p->at == '{', n = 0;
    p->at += braces;
    for (; p->at < p->end && n < (braces ? 6 : 2); n++, p->at++) {
        char c = *p->at;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) break;
        v = v * 16 + digit;
    }
    if (!n || (braces && (p->at == p->end || *p->at++ != '}')))
        wrong(p, "a regular expression has a bad escape");
    return v;
}

/* After a backslash: a letter, or (-1 cast) a class that was added. */
static int escape(Parse *p, uint32_t *letter) {
    static const char plain[] = "a\af\fn\nr\rt\tv\v";
    if (p->at == p->end) return wrong(p, "a regular expression ends in a backslash"), 0;
    uint32_t c = weir_utf8_next(&p->at, p->end);
    if (c < 128 && strchr("dwsDWS", (int)c) && c) {
        char lower = (char)(c | 32);
        add_class(p, &lower, 1, c != (uint32_t)lower);
        return 1;
    }
    *letter = c;
    for (size_t i = 0; i + 1 < sizeof plain; i += 2)
        if (c == (uint32_t)plain[i]) *letter = (uint32_t)plain[i + 1];
    if (c == 'x') *letter = hex(p);
    int word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (word && c != 'x' && *letter == c) wrong(p, "a regular expression has an unknown escape");
    return 0;
}

/* From behind "[". */
static void bracket(Parse *p) {
    int first = p->r->ranges, negated = p->at < p->end && *p->at == '^', any = 0;
    p->at += negated;
    for (; p->at < p->end && (*p->at != ']' || !any); any = 1) {
        uint32_t lo, hi;
        if (p->end - p->at > 3 && p->at[0] == '[' && p->at[1] == ':') {
            int not = p->at[2] == '^';
            const char *name = p->at + 2 + not, *close = name;
            while (close + 1 < p->end && !(close[0] == ':' && close[1] == ']')) close++;
            if (!add_class(p, name, (size_t)(close - name), not ))
                wrong(p, "a regular expression names an unknown class");
            else
                p->at = close + 2;
            continue;
        }
        lo = weir_utf8_next(&p->at, p->end);
        if (lo == '\\' && escape(p, &lo)) continue;
        hi = lo;
        if (p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            hi = weir_utf8_next(&p->at, p->end);
            if (hi == '\\' && escape(p, &hi)) wrong(p, "a regular expression has a bad range");
            if (hi < lo) wrong(p, "a regular expression has a bad range");
        }
        add_range(p, lo, hi);
    }
    if (p->at == p->end)
        wrong(p, "a regular expression has an open bracket");
    else
        p->at++;
    emit(p, (Step){.kind = STEP_SET,
                   .first = first,
                   .ranges = p->r->ranges - first,
                   .negated = negated,
                   .fold = p->fold});
}

/* ---- expressions ----------------------------------------------------------------------------- */

static void alternatives(Parse *p);

static void set(Parse *p, uint32_t lo, uint32_t hi, int negated) {
    add_range(p, lo, hi);
    emit(p, (Step){.kind = STEP_SET,
                   .first = p->r->ranges - 1,
                   .ranges = 1,
                   .negated = negated,
                   .fold = p->fold});
}

static void check(Parse *p, Check what) {
    emit(p, (Step){.kind = STEP_CHECK, .a = (int)what});
}

static void group(Parse *p) {
    int fold = p->fold, dot_all = p->dot_all, lines = p->lines, on = 1;
    if (++p->depth > DEPTH_MAX) return wrong(p, "a regular expression nests too deeply");
    if (p->end - p->at > 1 && p->at[0] == '?') {
        p->at++;
        if (*p->at == 'P' || *p->at == '<') {
            while (p->at < p->end && *p->at != '>') p->at++;
            p->at += p->at < p->end;
        } else {
            for (; p->at < p->end && strchr("imsU-", *p->at); p->at++) {
                if (*p->at == '-') on = 0;
                if (*p->at == 'i') p->fold = on;
                if (*p->at == 's') p->dot_all = on;
                if (*p->at == 'm') p->lines = on;
            }
            if (p->at < p->end && *p->at == ')') {
                p->depth--, p->at++;
                return;
            }
            if (p->at == p->end || *p->at++ != ':')
                return wrong(p, "a regular expression has an unknown group");
        }
    }
    alternatives(p);
    p->fold = fold, p->dot_all = dot_all, p->lines = lines, p->depth--;
    if (p->at == p->end || *p->at++ != ')') wrong(p, "a regular expression has an open group");
}

/* Returns what a repetition behind it repeats. */
static int escaped(Parse *p) {
    int from = p->r->n;
    uint32_t letter;
    int first = p->r->ranges;
    char c = p->at < p->end ? *p->at : '\0';
    if (c == 'b' || c == 'B' || c == 'A' || c == 'z') {
        p->at++;
        check(p, c == 'b' ? WORD : c == 'B' ? NO_WORD : c == 'A' ? AT_START : AT_END);
    } else if (c == 'Q') {
        for (p->at++;
             p->at < p->end && !(p->at[0] == '\\' && p->end - p->at > 1 && p->at[1] == 'E');) {
            letter = weir_utf8_next(&p->at, p->end);
            from = p->r->n;
            set(p, letter, letter, 0);
        }
        p->at += p->at < p->end ? 2 : 0;
    } else if (escape(p, &letter)) {
        emit(p, (Step){.kind = STEP_SET, .first = first, .ranges = p->r->ranges - first});
    } else {
        set(p, letter, letter, 0);
    }
    return from;
}

static int atom(Parse *p) {
    int from = p->r->n;
    uint32_t c = weir_utf8_next(&p->at, p->end);
    switch (c) {
    case '(': group(p); break;
    case '[': bracket(p); break;
    case '.':
        if (p->dot_all)
            set(p, 0, UINT32_MAX, 0);
        else
            set(p, '\n', '\n', 1);
        break;
    case '^': check(p, p->lines ? LINE_START : AT_START); break;
    case '$': check(p, p->lines ? LINE_END : AT_END); break;
    case '\\': return escaped(p);
    case '*':
    case '+':
    case '?': wrong(p, "a regular expression repeats nothing"); break;
    default: set(p, c, c, 0);
    }
    return from;
}

/* A copy of steps from .. to at the end. */
static void again(Parse *p, int from, int to) {
    int shift = p->r->n - from;
    for (int i = from; i < to && !p->reason; i++) {
        Step s = p->r->step[i];
        if (s.kind == STEP_SPLIT || s.kind == STEP_JUMP) s.a += shift;
        if (s.kind == STEP_SPLIT) s.b += shift;
        emit(p, s);
    }
}

static int number(Parse *p) {
    int v = -1;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9' && v <= REPEAT_MAX; p->at++)
        v = (v < 0 ? 0 : v) * 10 + (*p->at - '0');
    return v;
}

/* `{m}`, `{m,}`, `{m,n}`; what is none of these is text. */
static int counts(Parse *p, int *least, int *most) {
    const char *before = p->at;
    *least = (p->at++, number(p));
    *most = *least;
    if (p->at < p->end && *p->at == ',') p->at++, *most = number(p);
    if (*least >= 0 && p->at < p->end && *p->at == '}') return p->at++, 1;
    p->at = before;
    return 0;
}

static void star(Parse *p, int from) {
    insert(p, from, (Step){.kind = STEP_SPLIT, .a = from + 1});
    emit(p, (Step){.kind = STEP_JUMP, .a = from});
    if (!p->reason) p->r->step[from].b = p->r->n;
}

static void maybe(Parse *p, int from) {
    insert(p, from, (Step){.kind = STEP_SPLIT, .a = from + 1});
    if (!p->reason) p->r->step[from].b = p->r->n;
}

/* Steps from .. as they are, least to most times (-1: any number). */
static void repeat(Parse *p, int from, int least, int most) {
    int to = p->r->n, optional = from;
    if (least > REPEAT_MAX || most > REPEAT_MAX || (most >= 0 && most < least))
        return wrong(p, "a regular expression has a bad repetition");
    if (most == 0) {
        p->r->n = from;
        return;
    }
    for (int i = 1; i < least; i++) optional = p->r->n, again(p, from, to);
    if (least > 0 && most < 0) {
        optional = p->r->n;
        again(p, from, to);
    }
    if (most < 0) return star(p, optional);
    if (least == 0) {
        int length = to - from;
        maybe(p, from);
        for (int i = 1; i < most && !p->reason; i++) {
            int at = p->r->n;
            again(p, from + 1, from + 1 + length);
            maybe(p, at);
        }
        return;
    }
    for (int i = least; i < most && !p->reason; i++) {
        int at = p->r->n;
        again(p, from, to);
        maybe(p, at);
    }
}

static void sequence(Parse *p) {
    while (p->at < p->end && *p->at != '|' && *p->at != ')') {
        int from = atom(p), least, most;
        while (p->at < p->end) {
            char c = *p->at;
            if (c == '*' || c == '+' || c == '?')
                least = c == '+', most = c == '?' ? 1 : -1, p->at++;
            else if (c != '{' || !counts(p, &least, &most))
                break;
            if (p->at < p->end && *p->at == '?') p->at++;
            repeat(p, from, least, most);
        }
    }
}

/* Each alternative but the last starts with a choice and ends with a jump to the end; the jumps are
 * a list through `a` until the end is known. */
static void alternatives(Parse *p) {
    int from = p->r->n, jumps = -1;
    sequence(p);
    while (p->at < p->end && *p->at == '|') {
        p->at++;
        insert(p, from, (Step){.kind = STEP_SPLIT, .a = from + 1});
        jumps = emit(p, (Step){.kind = STEP_JUMP, .a = jumps});
        if (!p->reason) p->r->step[from].b = p->r->n;
        from = p->r->n;
        sequence(p);
    }
    for (int next; !p->reason && jumps >= 0; jumps = next) {
        next = p->r->step[jumps].a;
        p->r->step[jumps].a = p->r->n;
    }
}

weir_regex *weir_regex_new(weir_string pattern, const char **reason) {
    weir_regex *r = calloc(1, sizeof *r);
    *reason = "there is no memory for a regular expression";
    if (!r) return NULL;
    Parse p = {.r = r, .at = pattern.at, .end = pattern.at + pattern.bytes};
    alternatives(&p);
    if (p.at < p.end) wrong(&p, "a regular expression closes a group that is not open");
    emit(&p, (Step){.kind = STEP_MATCH});
    r->memory = p.reason ? NULL : calloc((size_t)r->n * 5 + 5, sizeof *r->memory);
    if (p.reason) *reason = p.reason;
    if (!r->memory) return weir_regex_free(r), NULL;
    r->now = r->memory;
    r->next = r->now + r->n;
    r->mark = r->next + r->n;
    r->stack = r->mark + r->n;
    return r;
}

void weir_regex_free(weir_regex *r) {
    if (!r) return;
    free(r->step);
    free(r->range);
    free(r->memory);
    free(r);
}

/* ---- matching -------------------------------------------------------------------------------- */

static int in_ranges(const weir_regex *r, const Step *s, uint32_t c) {
    for (int i = 0; i < s->ranges; i++)
        if (c >= r->range[s->first + i].lo && c <= r->range[s->first + i].hi) return 1;
    return 0;
}

static int set_has(const weir_regex *r, const Step *s, uint32_t c) {
    int has = in_ranges(r, s, c);
    if (!has && s->fold && c < 128 && ((c | 32) - 'a') < 26) has = in_ranges(r, s, c ^ 32);
    return has != s->negated;
}

static int is_word(uint32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

/* Between two letters; UINT32_MAX: there is none. */
static int holds(int check, uint32_t before, uint32_t after) {
    switch ((Check)check) {
    case AT_START: return before == UINT32_MAX;
    case AT_END: return after == UINT32_MAX;
    case LINE_START: return before == UINT32_MAX || before == '\n';
    case LINE_END: return after == UINT32_MAX || after == '\n';
    case WORD: return is_word(before) != is_word(after);
    case NO_WORD: return is_word(before) == is_word(after);
    }
    return 0;
}

/* Adds a step and all it leads to without a letter; true when one is the match. */
static int add(weir_regex *r, int step, int round, int *list, int *n, uint32_t before,
               uint32_t after) {
    int depth = 0, match = 0;
    r->stack[depth++] = step;
    while (depth) {
        int i = r->stack[--depth];
        if (r->mark[i] == round) continue;
        r->mark[i] = round;
        const Step *s = &r->step[i];
        if (s->kind == STEP_SPLIT) r->stack[depth++] = s->b;
        if (s->kind == STEP_SPLIT || s->kind == STEP_JUMP) r->stack[depth++] = s->a;
        if (s->kind == STEP_CHECK && holds(s->a, before, after)) r->stack[depth++] = i + 1;
        if (s->kind == STEP_SET) list[(*n)++] = i;
        match |= s->kind == STEP_MATCH;
    }
    return match;
}

int weir_regex_full(weir_regex *r, weir_string text) {
    const char *at = text.at, *end = text.at + text.bytes;
    uint32_t before = UINT32_MAX, c = at < end ? weir_utf8_next(&at, end) : UINT32_MAX;
    int n = 0, round = 1;
    memset(r->mark, 0, (size_t)r->n * sizeof *r->mark);
    int match = add(r, 0, round, r->now, &n, before, c);
    while (c != UINT32_MAX && n) {
        uint32_t after = at < end ? weir_utf8_next(&at, end) : UINT32_MAX;
        int more = 0;
        if (++round == INT32_MAX) memset(r->mark, 0, (size_t)r->n * sizeof *r->mark), round = 1;
        match = 0;
        for (int i = 0; i < n; i++)
            if (set_has(r, &r->step[r->now[i]], c))
                match |= add(r, r->now[i] + 1, round, r->next, &more, c, after);
        int *swap = r->now;
        r->now = r->next, r->next = swap;
        n = more;
        before = c, c = after;
    }
    return match && c == UINT32_MAX;
}
