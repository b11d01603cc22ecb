/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: joined, split, normalized, matched. Meaning: ir/call.def. Each takes time
 * linear in the bytes it reads and writes. Text that is no UTF-8 passes through unchanged. */
#include "runtime/calls.h"
#include "runtime/objects.h"
#include "runtime/regex.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

static void no_memory(weir_call *c) {
    c->status = WEIR_E_MEMORY;
    c->reason = "there is no memory for strings";
}

static weir_string string_at(const weir_call *c, const weir_tensor *t, int64_t i) {
    return weir_text_of(c->objects, ((const int64_t *)t->data)[i]);
}

/* ---- concat ---------------------------------------------------------------------------------- */

NO_SCRATCH(string_concat)

void weir_call_string_concat(weir_call *c) {
    int64_t n = weir_tensor_count(&c->out[0]), *to = c->out[0].data;
    const int64_t *a = c->in[0].data, *b = c->in[1].data;
    for (int64_t i = 0; i < n; i++)
        if ((to[i] = weir_text_joined(c->objects, a[i], b[i])) < 0) return no_memory(c);
}

/* ---- split ----------------------------------------------------------------------------------- */

NO_SCRATCH(string_fields)
NO_SCRATCH(string_split)

/* Fields of a text between delimiters, or (no delimiter) of what stands between white space. */
typedef struct Fields {
    const char *at, *end;
    weir_string by;
    int64_t left; /* splits still allowed */
    int done;
} Fields;

static int is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static Fields fields_of(const weir_call *c, weir_string s) {
    weir_string by = c->in[1].data ? string_at(c, &c->in[1], 0) : (weir_string){"", 0};
    return (Fields){s.at, s.at + s.bytes, by, c->attr[0] < 0 ? INT64_MAX : c->attr[0], 0};
}

static int next_word(Fields *f, weir_string *word) {
    while (f->at < f->end && is_space(*f->at)) f->at++;
    if (f->at == f->end) return 0;
    const char *start = f->at;
    if (f->left == 0) f->at = f->end;
    while (f->at < f->end && !is_space(*f->at)) f->at++;
    *word = (weir_string){start, f->at - start};
    f->left--;
    return 1;
}

static int next_field(Fields *f, weir_string *field) {
    if (!f->by.bytes) return next_word(f, field);
    if (f->done) return 0;
    const char *cut =
        f->left > 0 ? memmem(f->at, (size_t)(f->end - f->at), f->by.at, (size_t)f->by.bytes) : NULL;
    *field = (weir_string){f->at, (cut ? cut : f->end) - f->at};
    f->done = !cut;
    if (cut) f->at = cut + f->by.bytes;
    f->left--;
    return 1;
}

void weir_call_string_fields(weir_call *c) {
    int64_t n = weir_tensor_count(&c->in[0]), *count = c->out[0].data, *most = c->out[1].data;
    *most = 0;
    for (int64_t i = 0; i < n; i++) {
        Fields f = fields_of(c, string_at(c, &c->in[0], i));
        weir_string field;
        int64_t k = 0;
        while (next_field(&f, &field)) k++;
        if (count) count[i] = k;
        if (k > *most) *most = k;
    }
}

void weir_call_string_split(weir_call *c) {
    int64_t n = weir_tensor_count(&c->in[0]), *to = c->out[0].data;
    int64_t most = c->out[0].dims[c->out[0].rank - 1];
    for (int64_t i = 0; i < n; i++) {
        Fields f = fields_of(c, string_at(c, &c->in[0], i));
        weir_string field;
        for (int64_t k = 0; k < most; k++, to++) {
            *to = next_field(&f, &field) ? weir_text(c->objects, field.at, field.bytes) : 0;
            if (*to < 0) return no_memory(c);
        }
    }
}

/* ---- normalize ------------------------------------------------------------------------------- */

enum { CASE_NONE, CASE_LOWER, CASE_UPPER };

/* The text in another case; -1 when there is no memory. A letter may take more bytes than before.
 */
static int64_t change_case(weir_call *c, weir_string s, int to, locale_t l) {
    char *text = weir_objects_alloc(c->objects, s.bytes * 4 + 4), *put = text;
    if (!text) return -1;
    for (const char *at = s.at, *end = s.at + s.bytes; at < end;) {
        uint32_t letter = weir_utf8_next(&at, end);
        if (l)
            letter = to == CASE_LOWER ? (uint32_t)towlower_l(letter, l)
                                      : (uint32_t)towupper_l(letter, l);
        else if (letter < 128 && (to == CASE_LOWER ? letter - 'A' < 26 : letter - 'a' < 26))
            letter ^= 32;
        put = weir_utf8_put(put, letter);
    }
    return weir_text(c->objects, text, put - text);
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t weir_call_string_normalize_scratch(const weir_call *c) {
    return weir_tensor_count(&c->in[1]) * 8;
}

void weir_call_string_normalize(weir_call *c) {
    int64_t n = weir_tensor_count(&c->in[0]), m = weir_tensor_count(&c->in[1]), kept = 0;
    int64_t *stop = c->scratch, *to = c->out[0].data;
    const int64_t *from = c->in[0].data;
    locale_t l = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    for (int64_t i = 0; i < m; i++)
        stop[i] = c->attr[1] ? ((const int64_t *)c->in[1].data)[i]
                             : change_case(c, string_at(c, &c->in[1], i), CASE_LOWER, l);
    if (m) qsort(stop, (size_t)m, sizeof *stop, by_number);
    if (m && stop[0] < 0) no_memory(c);
    for (int64_t i = 0; i < n && !c->status; i++) {
        weir_string s = string_at(c, &c->in[0], i);
        int64_t key = !m || c->attr[1] ? from[i] : change_case(c, s, CASE_LOWER, l);
        if (m && bsearch(&key, stop, (size_t)m, sizeof *stop, by_number)) continue;
        to[kept] = c->attr[0] == CASE_NONE ? from[i] : change_case(c, s, (int)c->attr[0], l);
        if (key < 0 || to[kept++] < 0) no_memory(c);
    }
    if (l) freelocale(l);
    if (!kept) to[kept++] = 0;
    c->define[0] = kept;
}

/* ---- match ----------------------------------------------------------------------------------- */

NO_SCRATCH(string_match)

void weir_call_string_match(weir_call *c) {
    int64_t n = weir_tensor_count(&c->in[0]);
    weir_regex *r = weir_regex_new(string_at(c, &c->in[1], 0), &c->reason);
    if (!r) {
        c->status = WEIR_E_ARGUMENT;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)c->out[0].data)[i] = (uint8_t)weir_regex_full(r, string_at(c, &c->in[0], i));
    weir_regex_free(r);
}

/* ---- numbers as text ------------------------------------------------------------------------- */

NO_SCRATCH(string_from)
NO_SCRATCH(string_to)
NO_SCRATCH(pair_parts)
NO_SCRATCH(pair_join)

/* The fewest digits that read back as v, as in "1.5", "100000.0", "1e-05", "1.5e+20". */
static int shortest(char *to, double v, int is_f64) {
    char digits[40];
    int most = is_f64 ? 17 : 9, n = 0, at = 0;
    if (v != v || v - v != 0) return snprintf(to, 64, v != v ? "nan" : v < 0 ? "-inf" : "inf");
    for (int p = 1; p <= most; p++) {
        snprintf(digits, sizeof digits, "%.*e", p - 1, v);
        if (is_f64 ? strtod(digits, NULL) == v : strtof(digits, NULL) == (float)v) break;
    }
    char *e = strchr(digits, 'e'), mantissa[24];
    int power = atoi(e + 1);
    for (const char *c = digits; c < e; c++)
        if (*c >= '0' && *c <= '9') mantissa[n++] = *c;
    if (digits[0] == '-') to[at++] = '-';
    double size = v < 0 ? -v : v;
    if (size != 0 && (size < 1e-4 || size >= 1e16)) {
        at += snprintf(to + at, 64, n > 1 ? "%c.%.*se%+03d" : "%c%.*se%+03d", mantissa[0], n - 1,
                       mantissa + 1, power);
        return at;
    }
    if (power < 0) at += snprintf(to + at, 64, "0.%.*s", -power - 1, "0000");
    for (int i = 0; i < n || i <= power; i++) {
        to[at++] = i < n ? mantissa[i] : '0';
        if (i == power) to[at++] = '.';
    }
    if (to[at - 1] == '.') to[at++] = '0';
    return at;
}

/* The host's locale may write numbers in another way. */
static locale_t plain_open(locale_t *before) {
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    *before = plain ? uselocale(plain) : (locale_t)0;
    return plain;
}

static void plain_close(locale_t plain, locale_t before) {
    if (!plain) return;
    uselocale(before);
    freelocale(plain);
}

/* A c128 as its bytes. */
static int pair_text(char *to, const char *at) {
    static const char zero[16] = {0};
    memcpy(to, at, 16);
    return memcmp(at, zero, 16) ? 16 : 0;
}

static void pair_at(const weir_call *c, int64_t i, char *to) {
    weir_string s = string_at(c, &c->in[0], i);
    memset(to, 0, 16);
    if (s.bytes == 16) memcpy(to, s.at, 16);
}

static void pairs_to(weir_call *c) {
    char *to = c->out[0].data;
    int64_t n = weir_tensor_count(&c->out[0]);
    for (int64_t i = 0; i < n; i++) pair_at(c, i, to + 16 * i);
}

static void strings_from(weir_call *c) {
    const weir_tensor *x = &c->in[0];
    int64_t n = weir_tensor_count(x), *to = c->out[0].data;
    for (int64_t i = 0; i < n; i++) {
        char *text = weir_objects_alloc(c->objects, 64);
        if (!text) return no_memory(c);
        int bytes =
            x->dtype == WEIR_C128   ? pair_text(text, (const char *)x->data + 16 * i)
            : x->dtype == WEIR_F64  ? shortest(text, ((double *)x->data)[i], 1)
            : x->dtype == WEIR_F32  ? shortest(text, (double)((float *)x->data)[i], 0)
            : x->dtype == WEIR_U64  ? snprintf(text, 64, "%llu", ((unsigned long long *)x->data)[i])
            : x->dtype == WEIR_BOOL ? snprintf(text, 64, ((uint8_t *)x->data)[i] ? "True" : "False")
                                    : snprintf(text, 64, "%lld", ((long long *)x->data)[i]);
        if ((to[i] = weir_text(c->objects, text, bytes)) < 0) return no_memory(c);
    }
}

/* A text as an integer; "1.5" is cut to 1, one that no integer holds to the nearest that there is.
 */
static long long whole_of(const char *text, char **end) {
    long long v = strtoll(text, end, 10);
    char *past;
    double real = strtod(text, &past);
    if (past == *end) return v;
    *end = past;
    return real != real      ? 0
           : real >= 0x1p63  ? INT64_MAX
           : real <= -0x1p63 ? INT64_MIN
                             : (long long)real;
}

static void strings_to(weir_call *c) {
    weir_tensor *y = &c->out[0];
    int64_t n = weir_tensor_count(y);
    for (int64_t i = 0; i < n; i++) {
        weir_string s = string_at(c, &c->in[0], i);
        char text[128], *end = text;
        size_t bytes = s.bytes < 127 ? (size_t)s.bytes : 0;
        memcpy(text, s.at, bytes);
        text[bytes] = '\0';
        if (y->dtype == WEIR_F64)
            ((double *)y->data)[i] = strtod(text, &end);
        else
            ((long long *)y->data)[i] = whole_of(text, &end);
        while (is_space(*end)) end++;
        if (*end || end == text) {
            c->status = WEIR_E_ARGUMENT;
            c->reason = "a text that is to become a number is none";
            return;
        }
    }
}

void weir_call_string_from(weir_call *c) {
    locale_t before, plain = plain_open(&before);
    strings_from(c);
    plain_close(plain, before);
}

void weir_call_string_to(weir_call *c) {
    if (c->out[0].dtype == WEIR_C128) {
        pairs_to(c);
        return;
    }
    locale_t before, plain = plain_open(&before);
    strings_to(c);
    plain_close(plain, before);
}

void weir_call_pair_parts(weir_call *c) {
    double pair[2], *real = c->out[0].data, *imaginary = c->out[1].data;
    int64_t n = weir_tensor_count(&c->in[0]);
    for (int64_t i = 0; i < n; i++) {
        pair_at(c, i, (char *)pair);
        real[i] = pair[0], imaginary[i] = pair[1];
    }
}

void weir_call_pair_join(weir_call *c) {
    const double *real = c->in[0].data, *imaginary = c->in[1].data;
    int64_t n = weir_tensor_count(&c->in[0]), *to = c->out[0].data;
    for (int64_t i = 0; i < n; i++) {
        double pair[2] = {real[i], imaginary[i]};
        char *text = weir_objects_alloc(c->objects, 16);
        if (!text) return no_memory(c);
        int bytes = pair_text(text, (const char *)pair);
        if ((to[i] = weir_text(c->objects, text, bytes)) < 0) return no_memory(c);
    }
}
