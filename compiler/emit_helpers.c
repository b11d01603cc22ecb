/* SPDX-License-Identifier: Apache-2.0 */
/* Helper code by need. A library's pieces are keyed by the names they define; a text gets the
 * pieces whose names stand in it, transitively. A piece for vectors is a template over the number
 * of lanes: the name `max_v16f32` is the piece `max_v@f32` at 16. */
#include "emit.h"

#include <ctype.h>
#include <string.h>

typedef struct Piece {
    const char *text;
    size_t n;
} Piece;

struct Helpers {
    Arena *arena;
    Ctx *ctx;
    VEC(Piece) piece;
    Table *by_name; /* interned name -> index + 1 */
};

/* ---- reading --------------------------------------------------------------------------------- */

static void read_names(Helpers *h, const char *line, const char *end, int piece) {
    while (line < end) {
        while (line < end && *line == ' ') line++;
        const char *start = line;
        while (line < end && *line != ' ') line++;
        if (line > start)
            table_put(h->by_name, intern_n(h->ctx, start, (size_t)(line - start)),
                      (void *)(intptr_t)(piece + 1));
    }
}

/* A piece ends at the next one, or at the first empty line that no code follows directly. */
static size_t piece_length(const char *text) {
    const char *next = strstr(text, "\n//:"), *gap = strstr(text, "\n\n");
    const char *end = text + strlen(text);
    if (next && next < end) end = next + 1;
    if (gap && gap < end) end = gap + 1;
    return (size_t)(end - text);
}

Helpers *helpers_read(Arena *arena, const char *const *texts, int n) {
    Helpers *h = NEW(arena, Helpers);
    h->arena = arena;
    h->ctx = arena_ctx(arena);
    h->by_name = table_new(arena);
    for (int i = 0; i < n; i++) {
        for (const char *at = texts[i]; (at = strstr(at, "\n//:"));) {
            const char *line = strchr(at + 1, '\n');
            if (!line) break;
            read_names(h, at + 4, line, h->piece.n);
            vec_push(arena, &h->piece, (Piece){line + 1, piece_length(line + 1)});
            at = line;
        }
    }
    return h;
}

/* ---- templates ------------------------------------------------------------------------------- */

/* The text of a repeated part for lane `lane`. */
static void put_lane(Text *out, const char *at, const char *end, int lanes, int lane) {
    for (; at < end; at++) {
        if (*at == '#')
            text_printf(out, "%d", lane);
        else if (*at == '@')
            text_printf(out, "%d", lanes);
        else
            text_put_n(out, at, 1);
    }
}

static const char *put_repeated(Text *out, const char *at, int lanes) {
    const char *end = at;
    for (int depth = 1; depth; end++) depth += (*end == '{') - (*end == '}');
    for (int i = 0; i < lanes; i++) {
        if (i) text_put(out, ", ");
        put_lane(out, at, end - 1, lanes, i);
    }
    return end;
}

static void put_piece(Text *out, const Piece *p, int lanes) {
    const char *at = p->text, *end = p->text + p->n;
    while (at < end) {
        const char *mark = memchr(at, '@', (size_t)(end - at));
        if (!mark) mark = end;
        text_put_n(out, at, (size_t)(mark - at));
        if (mark == end) return;
        at = mark + 1;
        if (*at == '#') {
            for (int i = 0; i < lanes; i++) text_printf(out, i ? ", %d" : "%d", i);
            at++;
        } else if (*at == '{') {
            at = put_repeated(out, at + 1, lanes);
        } else {
            text_printf(out, "%d", lanes);
        }
    }
}

/* ---- needs ----------------------------------------------------------------------------------- */

typedef struct Need {
    int piece, lanes;
} Need;

typedef struct Needs {
    const Helpers *h;
    Arena *arena;
    Table *seen; /* interned identifier -> any */
    VEC(Need) need;
} Needs;

static void scan(Needs *needs, const char *text, size_t n);

/* "max_v16f32" -> "max_v@f32", 16: the first v after the start or a '_' that digits follow. */
static const char *generic(Ctx *ctx, const char *id, size_t n, int *lanes) {
    for (size_t i = 0; i + 1 < n; i++) {
        if (id[i] != 'v' || !isdigit((unsigned char)id[i + 1]) || (i > 0 && id[i - 1] != '_'))
            continue;
        size_t e = i + 1;
        for (*lanes = 0; e < n && isdigit((unsigned char)id[e]); e++)
            *lanes = *lanes * 10 + (id[e] - '0');
        return internf(ctx, "%.*sv@%.*s", (int)i, id, (int)(n - e), id + e);
    }
    *lanes = 0;
    return intern_n(ctx, id, n);
}

static void want(Needs *needs, const char *id, size_t n) {
    Ctx *ctx = needs->h->ctx;
    const char *name = intern_n(ctx, id, n);
    if (table_get(needs->seen, name)) return;
    table_put(needs->seen, name, needs);
    int lanes, piece = (int)(intptr_t)table_get(needs->h->by_name, generic(ctx, id, n, &lanes)) - 1;
    if (piece < 0) return;
    for (int i = 0; i < needs->need.n; i++)
        if (needs->need.at[i].piece == piece && needs->need.at[i].lanes == lanes) return;
    vec_push(needs->arena, &needs->need, (Need){piece, lanes});
    Text text = {.arena = needs->arena};
    put_piece(&text, &needs->h->piece.at[piece], lanes);
    scan(needs, text_str(&text), text.n);
}

static void scan(Needs *needs, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t start = i;
        while (i < n && (isalnum((unsigned char)text[i]) || text[i] == '_')) i++;
        if (i > start && !isdigit((unsigned char)text[start])) want(needs, text + start, i - start);
        if (i == start) i++;
    }
}

static bool before(const Need *a, const Need *b) {
    return a->piece != b->piece ? a->piece < b->piece : a->lanes < b->lanes;
}

void helpers_emit(const Helpers *helpers, Text *out, const char *text) {
    Arena *arena = arena_new(helpers->ctx);
    Needs needs = {.h = helpers, .arena = arena, .seen = table_new(arena)};
    scan(&needs, text, strlen(text));
    for (int i = 1; i < needs.need.n; i++) {
        Need n = needs.need.at[i];
        int k = i;
        for (; k > 0 && before(&n, &needs.need.at[k - 1]); k--)
            needs.need.at[k] = needs.need.at[k - 1];
        needs.need.at[k] = n;
    }
    for (int i = 0; i < needs.need.n; i++)
        put_piece(out, &helpers->piece.at[needs.need.at[i].piece], needs.need.at[i].lanes);
    arena_free(arena);
}
