/* SPDX-License-Identifier: Apache-2.0 */
/* Types and the model's symbols.
 *
 * A symbol is a dim of an input that has a name, or none. Names like "past + 1" are arithmetic over
 * other names when all of these are dims of inputs by themselves; any other text is a symbol as a
 * whole. Names that are not identifiers get other characters replaced by '_'. Types that the model
 * declares for results use the symbols of the inputs; what else they name is unknown. */
#include "import.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

const char *import_identifier(Import *im, const char *name) {
    char *s = arena_printf(im->arena, "%s%s", isdigit((unsigned char)name[0]) ? "d" : "", name);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_') *p = '_';
    return intern(im->ctx, s[0] ? s : "dim");
}

static bool is_identifier(const char *s) {
    if (!isalpha((unsigned char)s[0]) && s[0] != '_') return false;
    while (isalnum((unsigned char)*s) || *s == '_' || *s == '.') s++;
    return !*s;
}

/* ---- arithmetic in names: sum of products of names, numbers and parentheses ----------------- */

typedef struct DimText {
    Import *im;
    const char *at;
    bool ok;
    int depth;
} DimText;

static Dim dim_text_sum(DimText *t);

static void spaces(DimText *t) {
    t->at += strspn(t->at, " \t");
}

static Dim dim_text_atom(DimText *t) {
    Ctx *ctx = t->im->ctx;
    spaces(t);
    size_t n = 0;
    while (isalnum((unsigned char)t->at[n]) || t->at[n] == '_' || t->at[n] == '.') n++;
    const char *word = t->at;
    Dim known = NULL;
    if (*word == '(' && t->depth++ < 50) {
        t->at++;
        known = dim_text_sum(t);
        spaces(t);
        t->ok = t->ok && *t->at == ')';
        t->at += *t->at == ')';
    } else if (isdigit((unsigned char)*word) && n < 10) {
        int64_t v = 0;
        for (size_t i = 0; i < n; i++)
            if (isdigit((unsigned char)word[i]))
                v = v * 10 + (word[i] - '0');
            else
                t->ok = false;
        known = dim_const(ctx, v);
        t->at += n;
    } else if (n) {
        known = table_get(t->im->symbols, intern_n(ctx, word, n));
        t->at += n;
    }
    t->ok = t->ok && known;
    return known ? known : dim_const(ctx, 1);
}

static Dim dim_text_product(DimText *t) {
    Ctx *ctx = t->im->ctx;
    Dim d = dim_text_atom(t);
    for (spaces(t); t->ok && (*t->at == '*' || *t->at == '/'); spaces(t)) {
        bool times = *t->at == '*';
        t->at += !times && t->at[1] == '/' ? 2 : 1;
        Dim by = dim_text_atom(t);
        if (times)
            d = dim_mul(ctx, d, by);
        else if (dim_is_const(by, NULL) && !dim_is(by, 0))
            d = dim_div(ctx, d, by);
        else
            t->ok = false;
    }
    return d;
}

static Dim dim_text_sum(DimText *t) {
    Ctx *ctx = t->im->ctx;
    Dim d = dim_text_product(t);
    for (spaces(t); t->ok && (*t->at == '+' || *t->at == '-'); spaces(t)) {
        bool plus = *t->at++ == '+';
        Dim by = dim_text_product(t);
        d = plus ? dim_add(ctx, d, by) : dim_sub(ctx, d, by);
    }
    return d;
}

static Dim parse_dim(Import *im, const char *text) {
    DimText t = {im, text, true, 0};
    Dim d = dim_text_sum(&t);
    return t.ok && !*t.at ? d : NULL;
}

/* ---- symbols -------------------------------------------------------------------------------- */

static const DimOverride *find_override(const Import *im, const char *name,
                                        const char *identifier) {
    for (int i = 0; im->options && i < im->options->ndim; i++) {
        const DimOverride *o = &im->options->dim[i];
        if (!strcmp(o->name, name) || !strcmp(o->name, identifier)) return o;
    }
    return NULL;
}

static bool symbol_taken(const Graph *g, Dim sym) {
    for (int i = 0; i < g->symbol.n; i++)
        if (g->symbol.at[i].sym == sym) return true;
    return false;
}

static Dim add_symbol(Import *im, const char *name) {
    const char *identifier = import_identifier(im, name);
    const DimOverride *o = find_override(im, name, identifier);
    Symbol s = {dim_sym(im->ctx, identifier), 0, INT64_MAX, NULL};
    for (int i = 1; symbol_taken(im->root, s.sym); i++)
        s.sym = dim_sym(im->ctx, internf(im->ctx, "%s_%d", identifier, i));
    if (o) s.lo = o->lo, s.hi = o->hi;
    Dim d = o && o->lo == o->hi ? dim_const(im->ctx, o->lo) : s.sym;
    if (d == s.sym) vec_push(im->arena, &im->root->symbol, s);
    table_put(im->symbols, intern(im->ctx, name), (void *)d);
    return d;
}

/* NULL: a dim without a name. "?", "-1" and "None" name nothing, however often exporters write
 * them: such dims need not be equal. */
static const char *dim_name(const OnnxDim *d) {
    if (d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM) return NULL;
    const char *name = text_or(d->dim_param, "?");
    return strcmp(name, "?") && strcmp(name, "-1") && strcmp(name, "None") ? name : NULL;
}

static const OnnxShape *shape_of(const OnnxType *t) {
    switch (t ? t->value_case : ONNX__TYPE_PROTO__VALUE__NOT_SET) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: return t->tensor_type->shape;
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE: return t->sparse_tensor_type->shape;
    default: return NULL;
    }
}

static void check_feed(Import *im, const OnnxGraph *g) {
    for (int i = 0; im->options && i < im->options->nfeed; i++) {
        bool found = false;
        for (size_t k = 0; k < g->n_input && !found; k++)
            found = !strcmp(text_or(g->input[k]->name, ""), im->options->feed[i]);
        if (!found)
            fail(im->ctx, E_OPTION, "the model has no input \"%s\" that could be fed",
                 im->options->feed[i]);
    }
}

static void check_overrides(Import *im) {
    for (int i = 0; im->options && i < im->options->ndim; i++) {
        const DimOverride *o = &im->options->dim[i];
        bool found = table_get(im->symbols, intern(im->ctx, o->name)) != NULL;
        for (int k = 0; k < im->root->symbol.n && !found; k++)
            found = !strcmp(dim_sym_name(im->root->symbol.at[k].sym), o->name);
        if (found) continue;
        Text names = {im->arena, NULL, 0, 0};
        for (int k = 0; k < im->root->symbol.n; k++)
            text_printf(&names, "%s%s", k ? ", " : "", dim_sym_name(im->root->symbol.at[k].sym));
        fail(im->ctx, E_OPTION, "the model has no dim \"%s\": its dims are: %s", o->name,
             im->root->symbol.n ? text_str(&names) : "none");
    }
}

void import_symbols(Import *im, const OnnxGraph *g) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < g->n_input; i++) {
            const OnnxShape *s = shape_of(g->input[i]->type);
            for (size_t k = 0; s && k < s->n_dim; k++) {
                const char *name = dim_name(s->dim[k]);
                if (!name || is_identifier(name) != (pass == 0)) continue;
                if (table_get(im->symbols, name) || (pass && parse_dim(im, name))) continue;
                add_symbol(im, name);
            }
        }
    for (size_t i = 0; i < g->n_input; i++)
        import_type(im, g->input[i]->type, text_or(g->input[i]->name, "input"));
    check_overrides(im);
    check_feed(im, g);
}

/* Dims without a name (some exporters write -1 as value) are symbols of their own in inputs. */
static Dim import_dim(Import *im, const OnnxDim *d, const char *input, int axis) {
    const char *param = dim_name(d);
    bool given = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (given && d->dim_value >= 0) return dim_const(im->ctx, d->dim_value);
    if (given && input && d->dim_value < -1)
        fail(im->ctx, E_SHAPE,
             "dim %d of input \"%s\" is %lld: dims are not negative, and one that is not known has "
             "a name or is -1",
             axis, input, (long long)d->dim_value);
    if (!param) {
        if (!input) return im->unknown;
        param = internf(im->ctx, "%s_d%d", input, axis);
        Dim known = table_get(im->symbols, param);
        return known ? known : add_symbol(im, param);
    }
    Dim known = table_get(im->symbols, param);
    if (!known) known = parse_dim(im, param);
    return known ? known : im->unknown;
}

static DType element_type(Import *im, int64_t onnx, const char *input) {
    DType t = onnx == (int)onnx ? dtype_from_onnx((int)onnx) : DT_NONE;
    if (t == DT_NONE && onnx)
        fail(im->ctx, E_UNSUPPORTED,
             "data type %lld of \"%s\" is not one that ONNX defines: export the model again",
             (long long)onnx, input ? input : "a value");
    return t;
}

static Type tensor_like(Import *im, int64_t elem, const OnnxShape *s, TypeKind kind,
                        const char *input) {
    Type type = {kind, element_type(im, elem, input), -1, NULL, NULL};
    if (type.dtype == DT_NONE) return (Type){0};
    if (!s) return type;
    type.rank = s->n_dim > INT_MAX ? INT_MAX : (int)s->n_dim;
    if (type.rank > RANK_MAX)
        fail(im->ctx, E_LIMIT, "a type has rank %d: the most is %d", type.rank, RANK_MAX);
    Dim *shape = NEW_ARRAY(im->arena, Dim, type.rank);
    for (int i = 0; i < type.rank; i++) shape[i] = import_dim(im, s->dim[i], input, i);
    type.shape = shape;
    return type;
}

static Type with_element(Import *im, int64_t key, const OnnxType *t, TypeKind kind) {
    Type *elem = NEW(im->arena, Type);
    *elem = import_type(im, t, NULL);
    return (Type){kind, element_type(im, key, NULL), 0, NULL, elem};
}

Type import_type(Import *im, const OnnxType *t, const char *input) {
    if (!t) return (Type){0};
    switch (t->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        return tensor_like(im, t->tensor_type->elem_type, t->tensor_type->shape, TYPE_TENSOR,
                           input);
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        return tensor_like(im, t->sparse_tensor_type->elem_type, t->sparse_tensor_type->shape,
                           TYPE_SPARSE, input);
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        return with_element(im, 0, t->sequence_type->elem_type, TYPE_SEQUENCE);
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        return with_element(im, 0, t->optional_type->elem_type, TYPE_OPTIONAL);
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        return with_element(im, t->map_type->key_type, t->map_type->value_type, TYPE_MAP);
    default: return (Type){0};
    }
}
