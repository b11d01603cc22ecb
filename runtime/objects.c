/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind handles: strings by content, objects, and the memory of a run. */
#include "runtime/objects.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/instance.h"

enum { CHUNK = 1 << 16, ALIGN = 16 };

typedef struct Chunk {
    struct Chunk *older;
    int64_t used, room;
    int64_t align;
    char at[];
} Chunk;

/* Strings first .. by content: open addressing, entries are handles + 1. */
typedef struct Index {
    int64_t *slot;
    int64_t n, room;
} Index;

struct weir_objects {
    weir_string *string;
    int64_t strings, constants, string_room;
    Index constant, made;
    weir_object *object;
    int64_t objects, object_room;
    Chunk *chunk;
};

/* ---- memory ---------------------------------------------------------------------------------- */

void *weir_objects_alloc(weir_objects *o, int64_t bytes) {
    if (bytes < 0 || bytes > INT64_MAX / 4) return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    Chunk *c = o->chunk;
    if (!c || c->room - c->used < bytes) {
        int64_t room = bytes > CHUNK ? bytes : CHUNK;
        c = malloc(sizeof *c + (size_t)room);
        if (!c) return NULL;
        *c = (Chunk){.older = o->chunk, .room = room};
        o->chunk = c;
    }
    void *at = c->at + c->used;
    c->used += bytes;
    return at;
}

static void drop_chunks(weir_objects *o, Chunk *keep) {
    for (Chunk *c = o->chunk, *older; c; c = older) {
        older = c->older;
        if (c != keep) free(c);
    }
    o->chunk = keep;
    if (keep) *keep = (Chunk){.room = keep->room};
}

/* Room for one more element; doubles. */
static int grow(void **at, int64_t *room, int64_t n, size_t size) {
    if (n < *room) return 1;
    int64_t more = *room ? 2 * *room : 64;
    void *new = realloc(*at, (size_t)more * size);
    if (!new) return 0;
    *at = new;
    *room = more;
    return 1;
}

/* ---- strings --------------------------------------------------------------------------------- */

uint64_t weir_text_hash(weir_string s) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < s.bytes; i++) h = (h ^ (uint8_t)s.at[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static int same(const weir_string *s, const char *at, int64_t n) {
    return s->bytes == n && (n == 0 || memcmp(s->at, at, (size_t)n) == 0);
}

/* The slot where the string stands, or where it would. */
static int64_t *find(const weir_objects *o, const Index *x, const char *at, int64_t n) {
    uint64_t mask = (uint64_t)x->room - 1;
    for (uint64_t i = weir_text_hash((weir_string){at, n}) & mask;; i = (i + 1) & mask)
        if (!x->slot[i] || same(&o->string[x->slot[i] - 1], at, n)) return &x->slot[i];
}

static int index_grow(const weir_objects *o, Index *x) {
    Index more = {.n = x->n, .room = x->room ? 2 * x->room : 64};
    if (x->room && x->n * 2 < x->room) return 1;
    more.slot = calloc((size_t)more.room, sizeof *more.slot);
    if (!more.slot) return 0;
    for (int64_t i = 0; i < x->room; i++)
        if (x->slot[i]) {
            const weir_string *s = &o->string[x->slot[i] - 1];
            *find(o, &more, s->at, s->bytes) = x->slot[i];
        }
    free(x->slot);
    *x = more;
    return 1;
}

static int64_t add(weir_objects *o, Index *x, const char *at, int64_t n) {
    if (!index_grow(o, x) ||
        !grow((void **)&o->string, &o->string_room, o->strings, sizeof *o->string))
        return -1;
    int64_t *slot = find(o, x, at, n);
    if (*slot) return *slot - 1;
    o->string[o->strings++] = (weir_string){at, n};
    x->n++;
    return (*slot = o->strings) - 1;
}

int64_t weir_text(weir_objects *o, const char *at, int64_t bytes) {
    int64_t known = *find(o, &o->constant, at, bytes);
    return known ? known - 1 : add(o, &o->made, at, bytes);
}

weir_string weir_text_of(const weir_objects *o, int64_t handle) {
    return handle >= 0 && handle < o->strings ? o->string[handle] : (weir_string){"", 0};
}

int64_t weir_text_joined(weir_objects *o, int64_t a, int64_t b) {
    weir_string s = weir_text_of(o, a), t = weir_text_of(o, b);
    if (!s.bytes || !t.bytes) return s.bytes ? a : t.bytes ? b : 0;
    char *text = weir_objects_alloc(o, s.bytes + t.bytes);
    if (!text) return -1;
    memcpy(text, s.at, (size_t)s.bytes);
    memcpy(text + s.bytes, t.at, (size_t)t.bytes);
    return weir_text(o, text, s.bytes + t.bytes);
}

/* ---- the table ------------------------------------------------------------------------------- */

weir_objects *weir_objects_new(const weir_string *text, int64_t n) {
    weir_objects *o = calloc(1, sizeof *o);
    int ok = o && add(o, &o->constant, "", 0) == 0;
    for (int64_t i = 1; ok && i < n; i++) ok = add(o, &o->constant, text[i].at, text[i].bytes) == i;
    if (!ok) return weir_objects_free(o), NULL;
    o->constants = o->strings;
    return o;
}

void weir_objects_free(weir_objects *o) {
    if (!o) return;
    drop_chunks(o, NULL);
    free(o->string);
    free(o->object);
    free(o->constant.slot);
    free(o->made.slot);
    free(o);
}

void weir_objects_reset(weir_objects *o) {
    Chunk *keep = o->chunk && o->chunk->room == CHUNK ? o->chunk : NULL;
    if (o->made.n) memset(o->made.slot, 0, (size_t)o->made.room * sizeof *o->made.slot);
    o->made.n = 0;
    o->strings = o->constants;
    o->objects = 0;
    drop_chunks(o, keep);
}

/* ---- objects --------------------------------------------------------------------------------- */

static int64_t object_add(weir_objects *o, const weir_object *object) {
    if (!grow((void **)&o->object, &o->object_room, o->objects, sizeof *o->object)) return -1;
    o->object[o->objects++] = *object;
    return o->objects;
}

const weir_object *weir_object_of(const weir_objects *o, int64_t handle) {
    return handle > 0 && handle <= o->objects ? &o->object[handle - 1] : NULL;
}

int64_t weir_object_view(weir_objects *o, const weir_tensor *t) {
    weir_object object = {.kind = WEIR_VALUE_TENSOR, .tensor = *t};
    return object_add(o, &object);
}

int64_t weir_object_tensor(weir_objects *o, const weir_tensor *t) {
    int64_t bytes = weir_bytes(t->dtype, weir_tensor_count(t));
    weir_tensor copy = *t;
    copy.data = weir_objects_alloc(o, bytes);
    if (!copy.data) return -1;
    if (bytes) memcpy(copy.data, t->data, (size_t)bytes);
    return weir_object_view(o, &copy);
}

static weir_items *items_new(weir_objects *o, const int64_t *from, int64_t n, int64_t room) {
    if (room > INT64_MAX / 64) return NULL;
    weir_items *items = weir_objects_alloc(o, (int64_t)sizeof *items + 8 * room);
    if (!items) return NULL;
    items->used = n;
    items->room = room;
    if (n) memcpy(items->at, from, (size_t)n * 8);
    return items;
}

int64_t weir_object_sequence(weir_objects *o, const int64_t *from, int64_t n) {
    weir_object object = {.kind = WEIR_VALUE_SEQUENCE, .count = n};
    object.items = items_new(o, from, n, n);
    return object.items ? object_add(o, &object) : -1;
}

int64_t weir_object_map(weir_objects *o, int64_t keys, int64_t values) {
    weir_object object = {.kind = WEIR_VALUE_MAP, .count = 2};
    object.items = items_new(o, (int64_t[]){keys, values}, 2, 2);
    return object.items ? object_add(o, &object) : -1;
}

/* At the end of a sequence that nobody has appended to, in place: a loop that collects n items
 * copies none of them. */
int64_t weir_object_insert(weir_objects *o, int64_t sequence, int64_t at, int64_t item) {
    weir_object s = o->object[sequence - 1];
    if (at != s.count || s.items->used != s.count || s.items->room == s.count) {
        weir_items *more = items_new(o, s.items->at, s.count, 2 * s.count + 4);
        if (!more) return -1;
        memmove(more->at + at + 1, more->at + at, (size_t)(s.count - at) * 8);
        s.items = more;
    }
    s.items->at[at] = item;
    s.items->used = ++s.count;
    return object_add(o, &s);
}
