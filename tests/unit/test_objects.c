/* SPDX-License-Identifier: Apache-2.0 */
/* Strings and objects behind handles: equal strings are one, values survive a round trip through
 * what callers give and get, hostile values are refused, nothing outlives a reset. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/calls.h"
#include "runtime/objects.h"

static weir_string text(const char *s) {
    return (weir_string){s, (int64_t)strlen(s)};
}

Test(objects, equal_strings_have_one_handle) {
    weir_string constant[] = {text(""), text("yes"), {"a\0b", 3}};
    weir_objects *o = weir_objects_new(constant, 3);
    cr_expect_eq(weir_text(o, "yes", 3), 1);
    cr_expect_eq(weir_text(o, "a\0b", 3), 2);
    cr_expect_eq(weir_text(o, "", 0), 0);
    int64_t made = weir_text(o, "a\0c", 3);
    cr_expect_geq(made, 3);
    cr_expect_eq(weir_text(o, "a\0c", 3), made);
    char name[5000][8];
    for (int i = 0; i < 5000; i++) {
        int64_t n = sprintf(name[i], "%d", i);
        weir_text(o, name[i], n);
    }
    for (int i = 0; i < 5000; i++) {
        weir_string s = weir_text_of(o, weir_text(o, name[i], (int64_t)strlen(name[i])));
        cr_assert_eq(memcmp(s.at, name[i], strlen(name[i])), 0);
    }
    weir_objects_reset(o);
    cr_expect_eq(weir_text_of(o, made).bytes, 0);
    cr_expect_eq(weir_text_of(o, 2).bytes, 3);
    cr_expect_eq(weir_text_of(o, -7).bytes, 0);
    cr_expect_eq(weir_text_of(o, INT64_MAX).bytes, 0);
    weir_objects_free(o);
}

static weir_value tensor_value(int dtype, void *data, int64_t n) {
    return (weir_value){.kind = WEIR_VALUE_TENSOR,
                        .tensor = {.data = data, .dtype = dtype, .rank = 1, .dims = {n}}};
}

static void *counted(void *context, size_t bytes) {
    ++*(int *)context;
    return malloc(bytes);
}

Test(objects, values_survive_a_round_trip) {
    float x[] = {1, 2, 3};
    weir_string s[] = {text("left"), text("right")};
    weir_value item[] = {tensor_value(WEIR_F32, x, 3), tensor_value(WEIR_STRING, s, 2),
                         tensor_value(WEIR_F32, NULL, 0)};
    weir_value value = {.kind = WEIR_VALUE_SEQUENCE, .count = 3, .items = item}, *back;
    weir_objects *o = weir_objects_new(NULL, 0);
    int64_t handle;
    const char *reason;
    int blocks = 0;
    weir_allocator allocator = {&blocks, counted};
    cr_assert_eq(weir_objects_take(o, WEIR_OBJECT, &value, 1, &handle, &reason), WEIR_OK);
    cr_assert_eq(weir_objects_give(o, WEIR_OBJECT, &handle, 1, &allocator, (void **)&back),
                 WEIR_OK);
    weir_objects_free(o);
    cr_expect_eq(blocks, 1);
    cr_assert_eq(back->kind, WEIR_VALUE_SEQUENCE);
    cr_assert_eq(back->count, 3);
    cr_expect_arr_eq(back->items[0].tensor.data, x, sizeof x);
    const weir_string *t = back->items[1].tensor.data;
    cr_expect_eq(memcmp(t[1].at, "right", 5), 0);
    cr_expect_eq(back->items[2].tensor.dims[0], 0);
    free(back);
}

static void refused(const weir_value *v) {
    weir_objects *o = weir_objects_new(NULL, 0);
    int64_t handle;
    const char *reason = NULL;
    cr_expect_eq(weir_objects_take(o, WEIR_OBJECT, v, 1, &handle, &reason), WEIR_E_ARGUMENT);
    cr_expect_not_null(reason);
    weir_objects_free(o);
}

Test(objects, hostile_values_are_refused) {
    weir_value none = {0}, loop = {.kind = WEIR_VALUE_SEQUENCE, .count = 1, .items = &loop};
    weir_string bad = {NULL, 4}, negative = {"x", -1};
    weir_value in[] = {
        {.kind = 9},
        {.kind = WEIR_VALUE_SEQUENCE, .count = -1},
        {.kind = WEIR_VALUE_SEQUENCE, .count = 2},
        {.kind = WEIR_VALUE_SEQUENCE, .count = 1, .items = &none},
        {.kind = WEIR_VALUE_MAP, .count = 1, .items = &none},
        tensor_value(99, NULL, 0),
        tensor_value(WEIR_F32, NULL, 3),
        tensor_value(WEIR_F32, NULL, -3),
        tensor_value(WEIR_I64, NULL, INT64_MAX),
        tensor_value(WEIR_STRING, &bad, 1),
        tensor_value(WEIR_STRING, &negative, 1),
        {.kind = WEIR_VALUE_TENSOR, .tensor = {.dtype = WEIR_F32, .rank = 17}},
        loop,
    };
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) refused(&in[i]);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static weir_call call_of(weir_objects *o, weir_tensor *in, int nin, weir_tensor *out,
                         const int64_t *attr) {
    return (weir_call){.nin = nin, .nout = 1, .in = in, .out = out, .attr = attr, .objects = o};
}

static weir_tensor scalar(int dtype, void *at) {
    return (weir_tensor){.data = at, .dtype = dtype};
}

Test(objects, a_loop_that_appends_takes_linear_memory) {
    weir_objects *o = weir_objects_new(NULL, 0);
    int64_t s = weir_object_sequence(o, NULL, 0), before = s, moves = 0;
    for (int64_t i = 0; i < 100000; i++) {
        weir_items *items = weir_object_of(o, s)->items;
        s = weir_object_insert(o, s, i, i + 7);
        moves += weir_object_of(o, s)->items != items;
    }
    cr_expect_leq(moves, 20);
    cr_expect_eq(weir_object_of(o, s)->count, 100000);
    cr_expect_eq(weir_object_of(o, s)->items->at[99999], 99999 + 7);
    cr_expect_eq(weir_object_of(o, before)->count, 0);
    int64_t a = weir_object_insert(o, s, 100000, 1), b = weir_object_insert(o, s, 100000, 2);
    cr_expect_eq(weir_object_of(o, a)->items->at[100000], 1);
    cr_expect_eq(weir_object_of(o, b)->items->at[100000], 2);
    weir_objects_free(o);
}

Test(objects, positions_and_kinds_are_checked) {
    weir_objects *o = weir_objects_new(NULL, 0);
    float x[2] = {1, 2};
    weir_tensor t = {.data = x, .dtype = WEIR_F32, .rank = 1, .dims = {2}};
    int64_t item = weir_object_tensor(o, &t), s = weir_object_sequence(o, &item, 1), at, got = 0;
    weir_tensor in[] = {scalar(WEIR_OBJECT, &s), scalar(WEIR_I64, &at)},
                out = scalar(WEIR_OBJECT, &got);
    for (at = -3; at <= 3; at++) {
        weir_call c = call_of(o, in, 2, &out, NULL);
        weir_call_seq_at(&c);
        cr_expect_eq(c.status, at == 0 || at == -1 ? WEIR_OK : WEIR_E_INDEX);
    }
    int64_t handles[] = {0, -1, 77, item};
    for (at = 0; at < 4; at++) {
        in[0].data = &handles[at];
        weir_call c = call_of(o, in, 1, &out, NULL);
        weir_call_seq_length(&c);
        cr_expect_eq(c.status, WEIR_E_ARGUMENT);
    }
    float room[4];
    weir_tensor wrong[] = {{.data = room, .dtype = WEIR_F32, .rank = 1, .dims = {3}},
                           {.data = room, .dtype = WEIR_I32, .rank = 1, .dims = {2}},
                           {.data = room, .dtype = WEIR_F32, .rank = 2, .dims = {1, 2}}};
    for (int i = 0; i < 3; i++) {
        weir_call c = call_of(o, (weir_tensor[]){scalar(WEIR_OBJECT, &item)}, 1, &wrong[i], NULL);
        weir_call_unbox(&c);
        cr_expect_eq(c.status, WEIR_E_ARGUMENT);
    }
    weir_objects_free(o);
}

Test(objects, splits_that_do_not_add_up_are_refused) {
    weir_objects *o = weir_objects_new(NULL, 0);
    float x[6] = {0, 1, 2, 3, 4, 5};
    int64_t split[2], attr[] = {0, 1}, got;
    weir_tensor in[] = {{.data = x, .dtype = WEIR_F32, .rank = 1, .dims = {6}},
                        {.data = split, .dtype = WEIR_I64, .rank = 1, .dims = {2}}},
                out = scalar(WEIR_OBJECT, &got);
    static const int64_t sizes[][3] = {{2, 4, 1}, {0, 6, 1}, {2, 3, 0}, {-1, 7, 0}, {7, -1, 0}};
    for (int i = 0; i < 5; i++) {
        memcpy(split, sizes[i], sizeof split);
        weir_call c = call_of(o, in, 2, &out, attr);
        weir_call_seq_split(&c);
        cr_expect_eq(c.status == WEIR_OK, sizes[i][2] == 1);
    }
    weir_objects_free(o);
}

Test(objects, numbers_as_text) {
    static const struct {
        double v;
        const char *text;
    } table[] = {{0, "0.0"},
                 {-0.0, "-0.0"},
                 {1, "1.0"},
                 {0.1, "0.1"},
                 {1e-5, "1e-05"},
                 {1e-4, "0.0001"},
                 {-123456.789, "-123456.789"},
                 {1e15, "1000000000000000.0"},
                 {1e16, "1e+16"},
                 {1.5e20, "1.5e+20"},
                 {5e-324, "5e-324"}};
    weir_objects *o = weir_objects_new(NULL, 0);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double v = table[i].v, back;
        int64_t handle;
        weir_tensor in = scalar(WEIR_F64, &v), out = scalar(WEIR_STRING, &handle);
        weir_call c = call_of(o, &in, 1, &out, NULL);
        weir_call_string_from(&c);
        weir_string s = weir_text_of(o, handle);
        cr_expect(s.bytes == (int64_t)strlen(table[i].text) &&
                      !memcmp(s.at, table[i].text, (size_t)s.bytes),
                  "%.17g as %.*s", v, (int)s.bytes, s.at);
        in = scalar(WEIR_STRING, &handle), out = scalar(WEIR_F64, &back);
        c = call_of(o, &in, 1, &out, NULL);
        weir_call_string_to(&c);
        cr_expect(c.status == WEIR_OK && !memcmp(&back, &v, sizeof v));
    }
    int64_t bad = weir_text(o, "1.5x", 4);
    double v;
    weir_tensor in = scalar(WEIR_STRING, &bad), out = scalar(WEIR_F64, &v);
    weir_call c = call_of(o, &in, 1, &out, NULL);
    weir_call_string_to(&c);
    cr_expect_eq(c.status, WEIR_E_ARGUMENT);
    weir_objects_free(o);
}
