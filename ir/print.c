/* SPDX-License-Identifier: Apache-2.0 */
/* Lines, marks, guards: see print.h. */
#include "print.h"

#include "flow.h"
#include "lex.h"

#include <string.h>

void print_line(Printer *p) {
    p->hit = false;
    for (int i = 0; i < p->indent; i++) text_put(p->out, "  ");
}

void print_see(Printer *p, const void *object) {
    if (object && object == p->guilty) p->hit = true;
}

void print_end(Printer *p) {
    if (p->hit && !p->said) {
        text_printf(p->out, "   # <-- %s", p->message);
        p->said = true;
    }
    text_put(p->out, "\n");
}

void print_from(Text *out, const char *from) {
    if (!from) return;
    text_put(out, " from");
    for (const char *at = from;; at++) {
        size_t n = strcspn(at, "\n");
        text_put(out, " ");
        text_quoted(out, at, n);
        at += n;
        if (!*at) return;
    }
}

void print_dims(Text *out, const Dim *dims, int n) {
    for (int i = 0; i < n; i++) {
        if (i) text_put(out, ", ");
        dim_print(out, dims[i]);
    }
}

/* The terms of `d` whose coefficient has this sign, taken positive. */
static void print_terms(Text *out, Dim d, bool positive) {
    DimTerm *terms = NEW_ARRAY(out->arena, DimTerm, d->nterms);
    struct DimNode part = {.term = terms};
    for (int i = 0; i < d->nterms; i++) {
        if ((d->term[i].coef > 0) != positive) continue;
        terms[part.nterms] = d->term[i];
        if (!positive) terms[part.nterms].coef = -d->term[i].coef;
        part.nterms++;
    }
    dim_print(out, &part);
}

void print_guards(Text *out, const Dim *ge0, int n) {
    for (int i = 0; i < n; i++) {
        if (i) text_put(out, ", ");
        print_terms(out, ge0[i], true);
        text_put(out, " >= ");
        print_terms(out, ge0[i], false);
    }
}

void print_symbols(Text *out, const struct Symbol *symbols, int n) {
    for (int i = 0; i < n; i++) {
        const Symbol *s = &symbols[i];
        text_put(out, i ? ", " : " (");
        text_name(out, dim_sym_name(s->sym));
        if (s->hi != INT64_MAX)
            text_printf(out, " in %lld..%lld", (long long)s->lo, (long long)s->hi);
        else if (s->lo != 0 || !s->upper)
            text_printf(out, " in %lld..", (long long)s->lo);
        if (!s->upper) continue;
        text_put(out, " upto ");
        dim_print(out, s->upper);
    }
    if (n) text_put(out, ")");
}
