/* SPDX-License-Identifier: Apache-2.0 */
/* Strings, sequences, optionals and maps on the host: copied into one block as runs give them,
 * compared, printed. */
#include <stdlib.h>
#include <string.h>

#include "runtime/objects.h"
#include "tools/weir/tensors.h"

bool host_is_object(int32_t dtype) {
    return dtype == WEIR_STRING || dtype == WEIR_OBJECT;
}

bool host_flatten(HostTensor *h, const void *data) {
    int64_t n = host_count(&h->t), *handle = host_alloc((size_t)n, sizeof *handle);
    weir_objects *o = weir_objects_new(NULL, 0);
    const char *reason;
    void *block = NULL;
    bool ok = o && weir_objects_take(o, h->t.dtype, data, n, handle, &reason) == WEIR_OK &&
              weir_objects_give(o, h->t.dtype, handle, n, NULL, &block) == WEIR_OK;
    weir_objects_free(o);
    free(handle);
    h->t.data = block;
    return ok;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static const Tolerance exactly = {0};

static void compare_values(Difference *d, const weir_value *got, const weir_value *want,
                           const Tolerance *within);

static const char *const kind_names[] = {"nothing", "a tensor", "a sequence", "a map"};

/* Element i of a tensor, as one of rank 0. */
static weir_tensor element(const weir_tensor *t, int64_t i) {
    int64_t unit =
        t->dtype == WEIR_STRING ? (int64_t)sizeof(weir_string) : dtype_bits_of(t->dtype) / 8;
    return (weir_tensor){.dtype = t->dtype, .data = (char *)t->data + i * unit};
}

/* Compares one tensor within a value; the distance is the worst of all so far. */
static void compare_within(Difference *d, const weir_tensor *got, const weir_tensor *want,
                           const Tolerance *within) {
    Distance before = d->distance;
    *d = host_compare(got, want, within);
    distance_worsen(&d->distance, before);
}

/* Maps have no order: each entry wanted is looked up by its key. */
static void compare_maps(Difference *d, const weir_value *got, const weir_value *want,
                         const Tolerance *within) {
    const weir_tensor *have = &got->items[0].tensor, *keys = &want->items[0].tensor;
    const weir_value *a = &got->items[1], *b = &want->items[1];
    int64_t n = host_count(keys), k;
    d->same = have->dtype == keys->dtype && host_count(have) == n && a->kind == b->kind &&
              a->tensor.dtype == b->tensor.dtype;
    if (!d->same) snprintf(d->text, sizeof d->text, "a map of another type, or other length");
    for (int64_t i = 0; i < n && d->same; i++) {
        weir_tensor key = element(keys, i), x, y;
        for (k = 0; k < n; k++) {
            x = element(have, k);
            if (host_compare(&x, &key, &exactly).same) break;
        }
        if (k == n) {
            d->same = false;
            snprintf(d->text, sizeof d->text, "key %lld is missing", (long long)i);
        } else if (a->kind == WEIR_VALUE_SEQUENCE) {
            compare_values(d, &a->items[k], &b->items[i], within);
        } else {
            x = element(&a->tensor, k), y = element(&b->tensor, i);
            compare_within(d, &x, &y, within);
        }
    }
}

static void compare_values(Difference *d, const weir_value *got, const weir_value *want,
                           const Tolerance *within) {
    if (got->kind != want->kind || got->count != want->count) {
        d->same = false;
        snprintf(d->text, sizeof d->text, "got %s of %lld items, expected %s of %lld",
                 kind_names[got->kind & 3], (long long)got->count, kind_names[want->kind & 3],
                 (long long)want->count);
        return;
    }
    if (got->kind == WEIR_VALUE_MAP) {
        compare_maps(d, got, want, within);
        return;
    }
    if (got->kind == WEIR_VALUE_TENSOR) compare_within(d, &got->tensor, &want->tensor, within);
    for (int64_t i = 0; i < got->count && d->same; i++) {
        compare_values(d, &got->items[i], &want->items[i], within);
        if (d->same) continue;
        char text[sizeof d->text];
        snprintf(text, sizeof text, "item %lld: %.160s", (long long)i, d->text);
        memcpy(d->text, text, sizeof text);
    }
}

static void compare_strings(Difference *d, const weir_string *got, const weir_string *want,
                            int64_t n) {
    for (int64_t i = 0; i < n && d->same; i++) {
        if (got[i].bytes == want[i].bytes &&
            (!got[i].bytes || !memcmp(got[i].at, want[i].at, (size_t)got[i].bytes)))
            continue;
        d->same = false;
        d->at = i;
        snprintf(d->text, sizeof d->text, "element %lld is \"%.*s\", expected \"%.*s\"",
                 (long long)i, (int)(got[i].bytes < 60 ? got[i].bytes : 60), got[i].at,
                 (int)(want[i].bytes < 60 ? want[i].bytes : 60), want[i].at);
    }
}

void host_compare_objects(Difference *d, const weir_tensor *got, const weir_tensor *want,
                          const Tolerance *within) {
    int64_t n = host_count(got);
    if (got->dtype == WEIR_STRING)
        compare_strings(d, got->data, want->data, n);
    else
        for (int64_t i = 0; i < n && d->same; i++)
            compare_values(d, (const weir_value *)got->data + i, (const weir_value *)want->data + i,
                           within);
}

/* ---- printing -------------------------------------------------------------------------------- */

enum { SHOWN = 6 };

static void print_tensor(const weir_tensor *t) {
    int64_t n = host_count(t);
    printf("%s[", dtype_text(t->dtype));
    for (int i = 0; i < t->rank; i++) printf("%s%lld", i ? "," : "", (long long)t->dims[i]);
    printf("] {");
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        printf(i ? ", " : " ");
        if (t->dtype == WEIR_STRING) {
            const weir_string *s = (const weir_string *)t->data + i;
            char text[64];
            snprintf(text, sizeof text, "%.*s", (int)(s->bytes < 60 ? s->bytes : 60), s->at);
            json_string(stdout, text);
        } else if (t->dtype != WEIR_C64 && t->dtype != WEIR_C128) {
            printf("%.6g", host_get(t, i));
        }
    }
    printf(n > SHOWN ? ", ... }" : " }");
}

static void print_value(const weir_value *v) {
    if (v->kind == WEIR_VALUE_NONE) printf("nothing");
    if (v->kind == WEIR_VALUE_TENSOR) print_tensor(&v->tensor);
    if (v->kind != WEIR_VALUE_SEQUENCE && v->kind != WEIR_VALUE_MAP) return;
    printf(v->kind == WEIR_VALUE_MAP ? "map(" : "seq(");
    for (int64_t i = 0; i < v->count && i < SHOWN; i++) {
        if (i) printf(", ");
        print_value(&v->items[i]);
    }
    if (v->count > SHOWN) printf(", ... %lld in all", (long long)v->count);
    printf(")");
}

void host_print_object(const weir_tensor *t) {
    if (t->dtype == WEIR_STRING)
        print_tensor(t);
    else
        print_value(t->data);
}
