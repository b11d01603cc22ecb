/* SPDX-License-Identifier: Apache-2.0 */
/* Expression text to Vals: precedence climbing into a tree, then types down and Vals up.
 *
 * A tree's type is known while it is read (DT_NONE as long as it holds literals only), so every
 * type error is found at its token. */
#include "body_expr.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { EXPR_VAL, EXPR_LITERAL, EXPR_CALL } ExprKind;

struct Expr {
    ExprKind kind;
    DType type;       /* DT_NONE: literals only */
    int val;          /* EXPR_VAL */
    const char *text; /* EXPR_LITERAL */
    bool negative;
    Prim prim; /* EXPR_CALL */
    Expr *arg[3];
    int depth;
};
enum { DEEPEST = 1000 };

static _Noreturn void complain(ExprScan *scan, const char *fmt, const char *a, const char *b) {
    char message[160];
    snprintf(message, sizeof message, fmt, a, b);
    scan->error(scan, message);
}

/* ---- tokens ------------------------------------------------------------------------------------
 */

static bool at_punct(const ExprScan *scan, const char *punct) {
    return scan->tok.kind == EXPR_PUNCT && strcmp(scan->tok.text, punct) == 0;
}

bool expr_accept(ExprScan *scan, const char *punct) {
    if (!at_punct(scan, punct)) return false;
    scan->next(scan);
    return true;
}

void expr_expect(ExprScan *scan, const char *punct) {
    if (!expr_accept(scan, punct))
        complain(scan, "\"%s\" expected, not \"%s\"", punct, scan->tok.text);
}

const char *expr_expect_name(ExprScan *scan) {
    if (scan->tok.kind != EXPR_NAME)
        complain(scan, "name expected, not \"%s\"%s", scan->tok.text, "");
    const char *name = scan->tok.text;
    scan->next(scan);
    return name;
}

static DType type_named(const ExprScan *scan, const char *name) {
    if (scan->type_t && strcmp(name, "T") == 0) return scan->type_t;
    return dtype_parse(name);
}

DType expr_expect_type(ExprScan *scan) {
    DType t = scan->tok.kind == EXPR_NAME ? type_named(scan, scan->tok.text) : DT_NONE;
    if (!t) complain(scan, "element type expected, not \"%s\"%s", scan->tok.text, "");
    scan->next(scan);
    return t;
}

/* ---- literals ------------------------------------------------------------------------------- */

static bool nan_bits(DType t, const char *text, bool negative, Bits *bits) {
    *bits = bits_of_double(t, negative ? -NAN : NAN);
    if (text[3] == 0) return true;
    if (text[3] != ':') return false;
    char *end;
    *bits = strtoull(text + 4, &end, 16);
    int width = dtype_bits(t);
    return *end == 0 && end != text + 4 && !negative && (width >= 64 || *bits >> width == 0);
}

static bool float_bits(DType t, const char *text, bool negative, Bits *bits) {
    double sign = negative ? -1 : 1;
    if (strncmp(text, "nan", 3) == 0) return nan_bits(t, text, negative, bits);
    if (strcmp(text, "lowest") == 0 || strcmp(text, "highest") == 0) {
        double edge = text[0] == 'l' ? -INFINITY : INFINITY;
        bool has_inf = bits_to_double(t, bits_of_double(t, edge)) == edge;
        if (!has_inf) edge = text[0] == 'l' ? dtype_lowest(t) : dtype_highest(t);
        *bits = bits_of_double(t, sign * edge);
        return true;
    }
    char *end;
    if (t == F32) {
        double v = (double)strtof(text, &end);
        *bits = bits_of_double(t, sign * v);
    } else {
        *bits = bits_of_double(t, sign * strtod(text, &end));
    }
    return *end == 0 && end != text;
}

static bool is_float_text(const char *text) {
    if (strncmp(text, "0x", 2) == 0 || strncmp(text, "0X", 2) == 0)
        return strpbrk(text, ".pP") != NULL;
    return strpbrk(text, ".eE") || strcmp(text, "inf") == 0 || strncmp(text, "nan", 3) == 0;
}

static bool int_bits(DType t, const char *text, bool negative, Bits *bits) {
    int width = dtype_bits(t);
    bool is_signed = dtype_class(t) == CLASS_INT;
    uint64_t top = is_signed ? (uint64_t)1 << (width - 1) : width >= 64 ? 0 : (uint64_t)1 << width;
    uint64_t highest = top - 1, keep = width >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;
    if (strcmp(text, "lowest") == 0 || strcmp(text, "highest") == 0) {
        *bits = text[0] == 'h' ? highest : is_signed ? top : 0;
        return !negative;
    }
    char *end;
    errno = 0;
    uint64_t v = strtoull(text, &end, 0);
    if (errno || *end || end == text || is_float_text(text) || text[0] == '-') return false;
    if (v > (negative ? (is_signed ? top : 0) : highest)) return false;
    *bits = (negative ? -v : v) & keep;
    return true;
}

bool literal_bits(DType t, const char *text, bool negative, Bits *bits) {
    switch (dtype_class(t)) {
    case CLASS_FLOAT: return float_bits(t, text, negative, bits);
    case CLASS_INT:
    case CLASS_OBJECT:
    case CLASS_COMPLEX:
    case CLASS_UINT: return int_bits(t, text, negative, bits);
    case CLASS_BOOL:
        *bits = strcmp(text, "true") == 0 || strcmp(text, "1") == 0 || strcmp(text, "highest") == 0;
        return !negative && (*bits || strcmp(text, "false") == 0 || strcmp(text, "0") == 0 ||
                             strcmp(text, "lowest") == 0);
    default: return false;
    }
}

static bool is_literal_word(const char *name) {
    return strcmp(name, "inf") == 0 || strcmp(name, "nan") == 0 || strcmp(name, "lowest") == 0 ||
           strcmp(name, "highest") == 0 || strncmp(name, "nan:", 4) == 0;
}

static bool is_scalar(DType t) {
    return dtype_class(t) != CLASS_COMPLEX && dtype_class(t) != CLASS_OBJECT;
}

/* ---- trees ---------------------------------------------------------------------------------- */

static Expr *expr_new(ExprScan *scan, ExprKind kind, DType type) {
    Expr *e = NEW(scan->body->arena, Expr);
    e->kind = kind;
    e->type = type;
    return e;
}

Expr *expr_val(ExprScan *scan, int val) {
    Expr *e = expr_new(scan, EXPR_VAL, scan->body->val.at[val].type);
    e->val = val;
    return e;
}

DType expr_type(const Expr *expr) {
    return expr->type;
}

static Expr *expr_literal(ExprScan *scan, const char *text, DType type) {
    Expr *e = expr_new(scan, EXPR_LITERAL, type);
    e->text = intern(arena_ctx(scan->body->arena), text);
    return e;
}

/* The operands' common type; complains unless it is one that the row takes. */
static DType operand_type(ExprScan *scan, Prim p, Expr *const *arg) {
    const PrimRow *row = prim_row(p);
    DType t = DT_NONE;
    for (int i = row->typing == TYPE_SELECT ? 1 : 0; i < row->arity; i++) {
        if (t && arg[i]->type && arg[i]->type != t)
            complain(scan, "operands of types %s and %s: convert one", dtype_name(t),
                     dtype_name(arg[i]->type));
        if (arg[i]->type) t = arg[i]->type;
    }
    if (!t) return t;
    bool ok = prim_takes(p, t);
    if (row->typing == TYPE_FLOAT) ok = dtype_is_float(t);
    if (row->typing == TYPE_LOGIC) ok = ok && !dtype_is_float(t);
    if (!ok) complain(scan, "\"%s\" does not take %s", row->name, dtype_name(t));
    return t;
}

static Expr *expr_call(ExprScan *scan, Prim p, Expr *const *arg) {
    const PrimRow *row = prim_row(p);
    DType t = operand_type(scan, p, arg);
    if (row->typing == TYPE_SELECT && arg[0]->type && arg[0]->type != BOOL)
        complain(scan, "\"select\" on %s%s: its first operand is a bool", dtype_name(arg[0]->type),
                 "");
    Expr *e = expr_new(scan, EXPR_CALL, row->typing == TYPE_COMPARE ? BOOL : t);
    e->prim = p;
    for (int i = 0; i < row->arity; i++) {
        e->arg[i] = arg[i];
        if (arg[i]->depth >= e->depth) e->depth = arg[i]->depth + 1;
    }
    if (e->depth > DEEPEST) scan->error(scan, "expression too long: name a part of it");
    return e;
}

static Expr *negate(ExprScan *scan, Expr *e) {
    if (e->kind != EXPR_LITERAL) return expr_call(scan, P_NEG, &e);
    Expr *n = expr_literal(scan, e->text, e->type);
    n->negative = !e->negative;
    return n;
}

/* ---- reading -------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    Prim prim;
    int level;
} operators[] = {
    {"|", P_OR, 1},  {"^", P_XOR, 2},  {"&", P_AND, 3},  {"==", P_EQ, 4},
    {"!=", P_NE, 4}, {"<", P_LT, 5},   {"<=", P_LE, 5},  {">", P_GT, 5},
    {">=", P_GE, 5}, {"<<", P_SHL, 6}, {">>", P_SHR, 6}, {"+", P_ADD, 7},
    {"-", P_SUB, 7}, {"*", P_MUL, 8},  {"/", P_DIV, 8},  {"%", P_MOD, 8},
};
enum { OPERATORS = sizeof operators / sizeof operators[0] };

static int operator_at(const ExprScan *scan) {
    if (scan->tok.kind != EXPR_PUNCT) return -1;
    for (int i = 0; i < OPERATORS; i++)
        if (strcmp(scan->tok.text, operators[i].text) == 0) return i;
    return -1;
}

static Expr *read_unary(ExprScan *scan, int depth);
static Expr *read_binary(ExprScan *scan, Expr *left, int level, int depth);

static Expr *read_whole(ExprScan *scan, int depth) {
    if (depth > DEEPEST) scan->error(scan, "expression nested too deeply");
    return read_binary(scan, read_unary(scan, depth + 1), 1, depth + 1);
}

/* `f32(x)`, `cvtinf:T(x)`, `bitcast:T(x)`, from "(" on. */
static Expr *read_convert(ExprScan *scan, Prim p, DType to, int depth) {
    expr_expect(scan, "(");
    Expr *x = read_whole(scan, depth);
    expr_expect(scan, ")");
    if (!is_scalar(to) || (x->type && !is_scalar(x->type))) scan->error(scan, "not a scalar type");
    bool bad = p == P_BITCAST && x->type && dtype_bits(x->type) != dtype_bits(to);
    if (bad)
        complain(scan, "bitcast from %s to %s: widths differ", dtype_name(x->type), dtype_name(to));
    if (x->type == to) return x;
    Expr *e = expr_new(scan, EXPR_CALL, to);
    e->prim = p;
    e->arg[0] = x;
    return e;
}

static Expr *read_call(ExprScan *scan, Prim p, int depth) {
    Expr *arg[3];
    const PrimRow *row = prim_row(p);
    if (row->typing == TYPE_CONVERT || row->typing == TYPE_BITCAST) {
        expr_expect(scan, ":");
        DType to = expr_expect_type(scan);
        return read_convert(scan, p, to, depth);
    }
    expr_expect(scan, "(");
    for (int i = 0; i < row->arity; i++) {
        if (i > 0) expr_expect(scan, ",");
        arg[i] = read_whole(scan, depth);
    }
    expr_expect(scan, ")");
    return expr_call(scan, p, arg);
}

static int lookup(const ExprScan *scan, const char *name) {
    for (int i = scan->name.n - 1; i >= 0; i--)
        if (strcmp(scan->name.at[i].name, name) == 0) return scan->name.at[i].val;
    return -1;
}

/* A name whose token has been consumed: a call where "(" or ":" follows a callable name, else a
 * value, else a literal's word. */
static Expr *read_named(ExprScan *scan, const char *name, int depth) {
    Prim p = prim_parse(name);
    DType t = type_named(scan, name);
    if (t && at_punct(scan, "(")) return read_convert(scan, P_CVT, t, depth);
    if (p && (at_punct(scan, "(") || at_punct(scan, ":"))) return read_call(scan, p, depth);
    int val = at_punct(scan, "[") ? -1 : lookup(scan, name);
    if (val < 0 && is_literal_word(name)) return expr_literal(scan, name, DT_NONE);
    if (val < 0 && (strcmp(name, "true") == 0 || strcmp(name, "false") == 0))
        return expr_literal(scan, name, BOOL);
    if (val < 0 && scan->resolve) val = scan->resolve(scan, name);
    if (val < 0) complain(scan, "\"%s\" is not defined here%s", name, "");
    return expr_val(scan, val);
}

static Expr *read_unary(ExprScan *scan, int depth) {
    if (depth > DEEPEST) scan->error(scan, "expression nested too deeply");
    if (expr_accept(scan, "-")) return negate(scan, read_unary(scan, depth + 1));
    if (expr_accept(scan, "(")) {
        Expr *e = read_whole(scan, depth + 1);
        expr_expect(scan, ")");
        return e;
    }
    if (scan->tok.kind == EXPR_NUMBER) {
        Expr *e = expr_literal(scan, scan->tok.text, DT_NONE);
        scan->next(scan);
        return e;
    }
    if (scan->tok.kind != EXPR_NAME)
        complain(scan, "expression expected, not \"%s\"%s", scan->tok.text, "");
    return read_named(scan, expr_expect_name(scan), depth + 1);
}

static Expr *read_binary(ExprScan *scan, Expr *left, int level, int depth) {
    for (int op; (op = operator_at(scan)) >= 0 && operators[op].level >= level;) {
        scan->next(scan);
        Expr *right =
            read_binary(scan, read_unary(scan, depth + 1), operators[op].level + 1, depth + 1);
        left = expr_call(scan, operators[op].prim, (Expr *[]){left, right});
    }
    return left;
}

Expr *expr_read(ExprScan *scan) {
    return read_whole(scan, 0);
}

Expr *expr_read_from(ExprScan *scan, const char *name) {
    return read_binary(scan, read_named(scan, name, 0), 1, 0);
}

Expr *expr_read_unary(ExprScan *scan) {
    return read_unary(scan, 0);
}

/* ---- building ------------------------------------------------------------------------------- */

static bool has_float_literal(const Expr *e) {
    if (e->kind == EXPR_LITERAL) return is_float_text(e->text);
    int arity = e->kind == EXPR_CALL ? prim_row(e->prim)->arity : 0;
    for (int i = 0; i < arity; i++)
        if (has_float_literal(e->arg[i])) return true;
    return false;
}

/* The type for an operand of literals only that nothing else decides. */
static DType literal_default(const Expr *const *arg, int n, DType want) {
    for (int i = 0; i < n; i++)
        if (has_float_literal(arg[i])) return want && dtype_is_float(want) ? want : F32;
    return want && want != BOOL ? want : I64;
}

static int build_convert(ExprScan *scan, const Expr *e) {
    const Expr *x = e->arg[0];
    DType from = x->type ? x->type : e->prim == P_CVTINF ? F32 : e->type;
    if (e->prim == P_BITCAST && !x->type && dtype_is_float(e->type) != has_float_literal(x))
        scan->error(scan, "bitcast of a literal: give it a type, as in \"f32(1)\"");
    return body_prim_as(scan->body, e->prim, e->type, expr_build(scan, x, from));
}

static int build_call(ExprScan *scan, const Expr *e, DType want) {
    const PrimRow *row = prim_row(e->prim);
    if (row->typing == TYPE_CONVERT || row->typing == TYPE_BITCAST) return build_convert(scan, e);
    int first = row->typing == TYPE_SELECT ? 1 : 0, args[3];
    DType t = DT_NONE;
    for (int i = first; i < row->arity; i++)
        if (e->arg[i]->type) t = e->arg[i]->type;
    if (!t && row->typing == TYPE_COMPARE)
        t = literal_default((const Expr *const *)e->arg, row->arity, want);
    if (!t) t = want;
    if (first) args[0] = expr_build(scan, e->arg[0], BOOL);
    for (int i = first; i < row->arity; i++) args[i] = expr_build(scan, e->arg[i], t);
    bool is_float = dtype_is_float(t);
    if ((row->typing == TYPE_FLOAT && !is_float) || (row->typing == TYPE_LOGIC && is_float))
        complain(scan, "\"%s\" does not take %s", row->name, dtype_name(t));
    return body_prim(scan->body, e->prim, args);
}

int expr_build(ExprScan *scan, const Expr *expr, DType want) {
    Bits bits;
    DType t = expr->type ? expr->type : want;
    if (!t) scan->error(scan, "literals only: give them a type, as in \"f32(1)\"");
    if (want && t != want)
        complain(scan, "a value of type %s where %s is wanted", dtype_name(t), dtype_name(want));
    switch (expr->kind) {
    case EXPR_VAL: return expr->val;
    case EXPR_LITERAL:
        if (!literal_bits(t, expr->text, expr->negative, &bits))
            complain(scan, "\"%s\" is not a %s", expr->text, dtype_name(t));
        return body_bits(scan->body, t, bits);
    case EXPR_CALL: return build_call(scan, expr, t);
    }
    BUG("expression of kind %d", expr->kind);
}

/* ---- statements ----------------------------------------------------------------------------- */

void expr_bind(ExprScan *scan, const char *name, int val) {
    vec_push(scan->body->arena, &scan->name, (ExprName){name, val});
}

static int read_tuple(ExprScan *scan, Expr **result, int max) {
    int n = 0;
    expr_expect(scan, "(");
    do {
        if (n == max) scan->error(scan, "too many values");
        result[n++] = expr_read(scan);
    } while (expr_accept(scan, ","));
    expr_expect(scan, ")");
    if (n == 1) result[0] = read_binary(scan, result[0], 1, 0);
    return n;
}

int expr_block(ExprScan *scan, DType literal, Expr **result, int max) {
    while (scan->tok.kind == EXPR_NAME) {
        const char *name = expr_expect_name(scan);
        if (!expr_accept(scan, "=")) {
            result[0] = expr_read_from(scan, name);
            return 1;
        }
        Expr *e = expr_read(scan);
        expr_bind(scan, name, expr_build(scan, e, e->type ? e->type : literal));
        expr_accept(scan, ";");
    }
    if (at_punct(scan, "(")) return read_tuple(scan, result, max);
    result[0] = expr_read(scan);
    return 1;
}
