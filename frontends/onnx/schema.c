/* SPDX-License-Identifier: Apache-2.0 */
/* What the standard, or onnxruntime for its own, says every operator takes, checked in one place
 * before any type rule runs: how many operands and results, which may be absent, element types and
 * which of them agree, which attributes there are, of which kind, and which must be given. So a
 * type rule reads operand k of such an operator without asking whether it is there, and a lowering
 * writes its first result so. What Weir does
 * not do is marked, and refused by name.
 *
 * The facts are rows of schema.def, sorted; an operator without a row (of another domain) is
 * checked by its rule alone. */
#include "schema.h"

#include <stdlib.h>
#include <string.h>

typedef struct Schema {
    const char *domain, *name;
    int since, least;
    const char *operands; /* "X:a1 B:a1? rest:b2*" */
    int least_results, results;
    const char *attributes; /* "axis:i! perm:I" */
} Schema;

static const Schema schemas[] = {
#define TYPES(number, names)
#define SCHEMA(domain, name, since, least, operands, least_results, results, attributes)           \
    {domain, name, since, least, operands, least_results, results, attributes},
#include "schema.def"
#undef SCHEMA
#undef TYPES
};

static const char *const type_sets[] = {
#define TYPES(number, names) names,
#define SCHEMA(domain, name, since, least, operands, least_results, results, attributes)
#include "schema.def"
#undef SCHEMA
#undef TYPES
};

static int compare(const Schema *s, const char *domain, const char *name, int version) {
    int order = strcmp(s->domain, domain);
    if (!order) order = strcmp(s->name, name);
    return order ? order : s->since - version;
}

/* The newest row that is not newer than the version. */
static const Schema *schema_find(const char *domain, const char *name, int version) {
    int lo = 0, hi = sizeof schemas / sizeof *schemas;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (compare(&schemas[mid], domain, name, version) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    const Schema *s = lo ? &schemas[lo - 1] : NULL;
    return s && !strcmp(s->domain, domain) && !strcmp(s->name, name) ? s : NULL;
}

/* ---- the words of a row --------------------------------------------------------------------- */

/* One operand or attribute: `name` has `length` bytes; `rest` is what follows the colon. */
typedef struct Word {
    const char *name, *rest;
    int length;
    bool optional, repeated, refused;
} Word;

static bool word_next(const char **at, Word *w) {
    *at += strspn(*at, " ");
    if (!**at) return false;
    size_t whole = strcspn(*at, " "), length = strcspn(*at, ":");
    char last = (*at)[whole - 1];
    *w = (Word){*at, *at + length + 1, (int)length, last == '?', last == '*', last == '~'};
    *at += whole;
    return true;
}

static bool has_word(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *at = words; *at;) {
        size_t k = strcspn(at, " ");
        if (k == n && !memcmp(at, word, n)) return true;
        at += k + strspn(at + k, " ");
    }
    return false;
}

/* ---- operands and results ------------------------------------------------------------------- */

static int last_given(const Node *node) {
    int n = node->in.n;
    while (n > 0 && node->in.at[n - 1] < 0) n--;
    return n;
}

/* An operand that may be absent counts where the node lists it as such. */
static void check_counts(const Infer *in, const Schema *s) {
    int given = last_given(in->node), most = 0, results = in->node->out.n, have = given;
    Word w = {0};
    for (const char *at = s->operands; word_next(&at, &w); most++)
        have += most == have && w.optional && have < in->node->in.n;
    if (w.repeated) most = given > most ? given : most;
    if (have < s->least || given > most)
        fail(in->ctx, E_MODEL, "the node has %d operands: the operator takes %s%d%s", given,
             w.repeated ? "at least " : "", s->least,
             most > s->least && !w.repeated ? internf(in->ctx, " to %d", most) : "");
    while (results > 0 && in->node->out.at[results - 1] < 0) results--;
    if (s->results >= 0 && results > s->results)
        fail(in->ctx, E_MODEL, "the node has %d results: the operator gives %d", results,
             s->results);
    if (s->least_results && (!results || in->node->out.at[0] < 0))
        fail(in->ctx, E_MODEL, "the node's first result has no name: the operator always gives it");
}

static const char *kind_name(const Type *t) {
    static const char *const name[] = {
        [TYPE_TENSOR] = NULL,    [TYPE_SPARSE] = NULL, [TYPE_SEQUENCE] = "seq",
        [TYPE_OPTIONAL] = "opt", [TYPE_MAP] = "map",   [TYPE_UNKNOWN] = "unknown"};
    const char *kind = name[t->kind];
    return kind ? kind : dtype_name(t->dtype);
}

/* Operand i against its word; `first` holds, by letter, the operand that fixed the type. */
static void check_type(const Infer *in, int i, const Word *w, int *first) {
    const Value *v = infer_in(in, i);
    const char *types = type_sets[atoi(w->rest + 1)], *have;
    if (!v && (w->optional || w->repeated || w->refused)) return;
    if (!v)
        fail(in->ctx, E_MODEL, "operand %d, \"%.*s\", is missing: the operator needs it", i,
             w->length, w->name);
    if (w->refused)
        fail(in->ctx, E_UNSUPPORTED, "operand %d, \"%.*s\", is not supported: export without it", i,
             w->length, w->name);
    have = kind_name(&v->type);
    if (v->type.kind == TYPE_UNKNOWN) return;
    if (!has_word(types, have))
        fail(in->ctx, E_TYPE, "operand %d, \"%s\", has type %s: as \"%.*s\" the operator takes %s",
             i, v->name, have, w->length, w->name, types);
    if (w->rest[0] == '-') return;
    int *same = &first[w->rest[0] - 'a'];
    if (*same < 0) *same = i;
    const Value *other = infer_in(in, *same);
    if (strcmp(kind_name(&other->type), have) != 0)
        fail(in->ctx, E_TYPE,
             "operands \"%s\" of type %s and \"%s\" of type %s must have one type: cast one of "
             "them",
             other->name, kind_name(&other->type), v->name, have);
}

static void check_types(const Infer *in, const Schema *s) {
    int first[26], i = 0, given = last_given(in->node);
    Word w;
    for (int k = 0; k < 26; k++) first[k] = -1;
    for (const char *at = s->operands; word_next(&at, &w); i++) {
        if (i >= given && i >= s->least) return;
        check_type(in, i, &w, first);
        while (w.repeated && i + 1 < given) check_type(in, ++i, &w, first);
    }
}

/* ---- attributes ----------------------------------------------------------------------------- */

static const struct {
    AttrKind kind;
    char letter;
    const char *name;
} kinds[] = {{ATTR_INT, 'i', "an integer"},
             {ATTR_FLOAT, 'f', "a float"},
             {ATTR_STRING, 's', "a string"},
             {ATTR_TENSOR, 't', "a tensor"},
             {ATTR_GRAPH, 'g', "a graph"},
             {ATTR_INTS, 'I', "a list of integers"},
             {ATTR_FLOATS, 'F', "a list of floats"},
             {ATTR_STRINGS, 'S', "a list of strings"},
             {ATTR_TYPE, 'y', "a type"}};

static const char *letter_name(char letter) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].letter == letter) return kinds[i].name;
    return "of another kind";
}

static char kind_letter(AttrKind kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind) return kinds[i].letter;
    BUG("attribute of kind %d", (int)kind);
}

/* The only values that are done, which the word names. */
static void check_value(const Infer *in, const Attr *a, const Word *w) {
    const char *have = a->kind == ATTR_STRING ? a->s : internf(in->ctx, "%lld", (long long)a->i);
    const char *only = w->rest + 2;
    size_t all = strcspn(only, " "), n;
    for (const char *at = only; at < only + all; at += n + 1) {
        n = strcspn(at, "| ");
        if (strlen(have) == n && !memcmp(at, have, n)) return;
    }
    fail(in->ctx, E_UNSUPPORTED, "attribute \"%s\" is %s: only %.*s is supported, export it so",
         a->name, have, (int)all, only);
}

static void check_attribute(const Infer *in, const Schema *s, const Attr *a) {
    Word w;
    for (const char *at = s->attributes; word_next(&at, &w);) {
        if (strlen(a->name) != (size_t)w.length || memcmp(a->name, w.name, (size_t)w.length))
            continue;
        char have = kind_letter(a->kind), want = w.rest[0];
        bool empty = a->n == 0 && strchr("IFS", have) && strchr("IFS", want);
        if (have != want && !empty)
            fail(in->ctx, E_ATTRIBUTE, "attribute \"%s\" is %s: it must be %s", a->name,
                 letter_name(have), letter_name(want));
        if (w.rest[1] == '=') check_value(in, a, &w);
        return;
    }
    fail(in->ctx, E_ATTRIBUTE,
         "attribute \"%s\" is not one of the operator's%s%s: remove it, or import the opset that "
         "has it",
         a->name, s->attributes[0] ? ": " : "", s->attributes);
}

static void check_attributes(const Infer *in, const Schema *s) {
    Word w;
    for (int i = 0; i < in->node->attr.n; i++) check_attribute(in, s, &in->node->attr.at[i]);
    for (const char *at = s->attributes; word_next(&at, &w);) {
        if (w.rest[1] != '!') continue;
        if (!node_attr(in->node, internf(in->ctx, "%.*s", w.length, w.name)))
            fail(in->ctx, E_ATTRIBUTE, "attribute \"%.*s\" is missing: the operator needs %s",
                 w.length, w.name, letter_name(w.rest[0]));
    }
}

void schema_check(const Infer *in) {
    const Node *node = in->node;
    const Schema *s = schema_find(node->row->domain, node->row->name, node->version);
    if (!s) return;
    check_counts(in, s);
    if (node->composed) return; /* compositions may use other types and attributes */
    check_types(in, s);
    check_attributes(in, s);
}
