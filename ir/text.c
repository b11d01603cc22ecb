/* SPDX-License-Identifier: Apache-2.0 */
/* Interned names, growing texts, hashing, pointer tables. All tables are open-addressed with linear
 * probing, a power of two in size and at most half full. */
#include <stdio.h>
#include <string.h>

#include "context.h"

/* ---- hashing ------------------------------------------------------------------------------- */

/* Eight bytes a step, each multiplied in; the last step mixes the high bits down, because tables
 * index by the low ones. */
uint64_t hash_bytes(uint64_t seed, const void *at, size_t n) {
    const unsigned char *p = at;
    uint64_t h = seed ^ 0xcbf29ce484222325u ^ n;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (; n > 0; n--, p++) h = (h ^ *p) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* ---- names --------------------------------------------------------------------------------- */

typedef struct Name {
    uint64_t hash;
    size_t n;
    char text[];
} Name;

struct Interns {
    Name **slot;
    size_t n, size;
};

static void interns_insert(struct Interns *interns, Name *name) {
    size_t i = name->hash & (interns->size - 1);
    while (interns->slot[i]) i = (i + 1) & (interns->size - 1);
    interns->slot[i] = name;
}

static void interns_grow(Ctx *ctx) {
    struct Interns *old = ctx->priv->interns, *grown = NEW(ctx_arena(ctx), struct Interns);
    grown->size = old ? 2 * old->size : 256;
    grown->slot = NEW_ARRAY(ctx_arena(ctx), Name *, grown->size);
    grown->n = old ? old->n : 0;
    for (size_t i = 0; old && i < old->size; i++)
        if (old->slot[i]) interns_insert(grown, old->slot[i]);
    ctx->priv->interns = grown;
}

const char *intern_n(Ctx *ctx, const char *text, size_t n) {
    struct Interns *interns = ctx->priv->interns;
    if (!interns || 2 * (interns->n + 1) > interns->size) {
        interns_grow(ctx);
        interns = ctx->priv->interns;
    }
    uint64_t hash = hash_bytes(0, text, n);
    size_t i = hash & (interns->size - 1);
    for (; interns->slot[i]; i = (i + 1) & (interns->size - 1)) {
        Name *name = interns->slot[i];
        if (name->hash == hash && name->n == n && memcmp(name->text, text, n) == 0)
            return name->text;
    }
    Name *name = arena_alloc(ctx_arena(ctx), sizeof *name + n + 1);
    name->hash = hash;
    name->n = n;
    memcpy(name->text, text, n);
    interns->slot[i] = name;
    interns->n++;
    return name->text;
}

const char *intern(Ctx *ctx, const char *text) {
    return intern_n(ctx, text, strlen(text));
}

const char *internf(Ctx *ctx, const char *fmt, ...) {
    char small[256];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (n < 0) BUG("bad format \"%s\"", fmt);
    const char *name;
    if (n < (int)sizeof small) {
        name = intern_n(ctx, small, (size_t)n);
    } else {
        name = intern(ctx, arena_vprintf(ctx_arena(ctx), fmt, again));
    }
    va_end(again);
    return name;
}

/* ---- text ---------------------------------------------------------------------------------- */

/* Makes room for n more bytes and the NUL. */
static void reserve(Text *text, size_t n) {
    if (text->n + n < text->cap) return;
    size_t cap = text->cap ? 2 * text->cap : 64;
    if (cap < text->n + n + 1) cap = text->n + n + 1;
    char *at = arena_alloc(text->arena, cap);
    if (text->n) memcpy(at, text->at, text->n);
    text->at = at;
    text->cap = cap;
}

void text_put_n(Text *text, const char *s, size_t n) {
    reserve(text, n);
    if (n) memcpy(text->at + text->n, s, n);
    text->n += n;
    text->at[text->n] = 0;
}

void text_put(Text *text, const char *s) {
    text_put_n(text, s, strlen(s));
}

void text_printf(Text *text, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    size_t room = text->cap - text->n;
    int n = vsnprintf(room ? text->at + text->n : NULL, room, fmt, args);
    va_end(args);
    if (n < 0) BUG("bad format \"%s\"", fmt);
    if ((size_t)n >= room) {
        reserve(text, (size_t)n);
        vsnprintf(text->at + text->n, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    text->n += (size_t)n;
}

/* A new line is \n, which drawings for dot read as well. */
void text_json(Text *text, const char *s) {
    text_put(text, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            text_printf(text, "\\%c", *s);
        else if (*s == '\n')
            text_put(text, "\\n");
        else if ((unsigned char)*s < 32)
            text_printf(text, "\\u%04x", (unsigned)*s);
        else
            text_put_n(text, s, 1);
    }
    text_put(text, "\"");
}

const char *text_str(Text *text) {
    reserve(text, 0);
    text->at[text->n] = 0;
    return text->at;
}

/* ---- tables -------------------------------------------------------------------------------- */

struct Table {
    Arena *arena;
    struct Slot {
        const void *key;
        void *value;
    } * slot;
    size_t n, size;
};

Table *table_new(Arena *arena) {
    Table *table = NEW(arena, Table);
    table->arena = arena;
    return table;
}

static struct Slot *table_find(const Table *table, const void *key) {
    uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    size_t i = (hash >> 32) & (table->size - 1);
    while (table->slot[i].key && table->slot[i].key != key) i = (i + 1) & (table->size - 1);
    return &table->slot[i];
}

void table_put(Table *table, const void *key, void *value) {
    ASSERT(key);
    if (2 * (table->n + 1) > table->size) {
        Table grown = {.arena = table->arena, .size = table->size ? 2 * table->size : 16};
        grown.slot = NEW_ARRAY(table->arena, struct Slot, grown.size);
        for (size_t i = 0; i < table->size; i++)
            if (table->slot[i].key) *table_find(&grown, table->slot[i].key) = table->slot[i];
        grown.n = table->n;
        *table = grown;
    }
    struct Slot *slot = table_find(table, key);
    if (!slot->key) table->n++;
    *slot = (struct Slot){key, value};
}

void *table_get(const Table *table, const void *key) {
    if (!table->size || !key) return NULL;
    return table_find(table, key)->value;
}
