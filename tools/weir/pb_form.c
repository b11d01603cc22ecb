/* SPDX-License-Identifier: Apache-2.0 */
/* Other forms of a model: its message is decoded, changed and encoded again, into memory that has a
 * path while it is open. Fields that the schema does not know stay as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "onnx.pb-c.h"
#include "tools/weir/form.h"
#include "tools/weir/tensors.h"

enum { PER_AXIS_MAX = 8 };

typedef Onnx__ModelProto Model;
typedef Onnx__GraphProto Graph;
typedef Onnx__TypeProto Type;
typedef Onnx__TensorShapeProto Shape;
typedef Onnx__TensorShapeProto__Dimension Dimension;

/* ---- symbolic ------------------------------------------------------------------------------- */

/* `name` NULL: nothing is said of the dim's size. */
static void set_dim(Dimension *d, const char *name) {
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM) free(d->dim_param);
    d->value_case = name ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                         : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    d->dim_param = name ? host_text(name) : NULL;
}

/* A short vector may hold one number per axis, as a shape does: then its extent is a rank, which
 * types tell, and stays. */
static bool is_short_vector(const Shape *s) {
    return s->n_dim == 1 && s->dim[0]->dim_value <= PER_AXIS_MAX &&
           s->dim[0]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
}

/* `input`: its number; -1: of another value, or of a part of one. */
static void loosen_shape(Shape *s, int input) {
    char name[48];
    if (!s || (input >= 0 && is_short_vector(s))) return;
    for (size_t i = 0; i < s->n_dim; i++) {
        snprintf(name, sizeof name, "D%d_%zu", input, i);
        set_dim(s->dim[i], input < 0 ? NULL : name);
    }
}

static void loosen(Type *t, int input) {
    if (!t) return;
    if (t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        loosen_shape(t->tensor_type->shape, input);
    else if (t->value_case == ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE)
        loosen_shape(t->sparse_tensor_type->shape, input);
    else if (t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE)
        loosen(t->sequence_type->elem_type, -1);
    else if (t->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE)
        loosen(t->optional_type->elem_type, -1);
    else if (t->value_case == ONNX__TYPE_PROTO__VALUE_MAP_TYPE)
        loosen(t->map_type->value_type, -1);
}

static void make_symbolic(Graph *g) {
    for (size_t i = 0; i < g->n_input; i++) loosen(g->input[i]->type, (int)i);
    for (size_t i = 0; i < g->n_output; i++) loosen(g->output[i]->type, -1);
    for (size_t i = 0; i < g->n_value_info; i++) loosen(g->value_info[i]->type, -1);
}

/* ---- constant ------------------------------------------------------------------------------- */

static bool is_initialized(const Graph *g, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(g->initializer[i]->name, name)) return true;
    return false;
}

static bool is_tensor(const Graph *g, size_t input) {
    const Type *t = g->input[input]->type;
    return t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
}

static Onnx__TensorProto *read_tensor(const char *path, const char *name, char *error) {
    size_t n;
    char *file = read_whole(path, &n, error);
    if (!file) return NULL;
    Onnx__TensorProto *t = onnx__tensor_proto__unpack(NULL, n, (uint8_t *)file);
    free(file);
    if (!t) return snprintf(error, 256, "\"%.180s\" is no TensorProto", path), NULL;
    if (t->name && t->name[0]) free(t->name);
    t->name = host_text(name);
    return t;
}

/* Files are numbered by the inputs that are no initializers of the model as given. */
static bool make_constant(FormedModel *f, Graph *g, const char *set, char *error) {
    size_t kept = 0, number = 0, given = g->n_initializer;
    bool ok = true, stays = false;
    char path[4300];
    g->initializer = host_more(g->initializer, given + g->n_input, sizeof *g->initializer);
    for (size_t i = 0; i < g->n_input; i++) {
        Onnx__ValueInfoProto *input = g->input[i];
        Onnx__TensorProto *t = NULL;
        bool named = is_initialized(g, given, input->name);
        snprintf(path, sizeof path, "%s/input_%zu.pb", set, number);
        if (ok && !named && stays && is_tensor(g, i) && access(path, R_OK) == 0)
            ok = (t = read_tensor(path, input->name, error)) != NULL;
        stays = stays || (!named && is_tensor(g, i));
        if (!named) f->fixed[number++] = t != NULL;
        if (t)
            g->initializer[g->n_initializer++] = t,
            onnx__value_info_proto__free_unpacked(input, NULL);
        else
            g->input[kept++] = input;
    }
    g->n_input = kept;
    return ok;
}

/* ---- forms ---------------------------------------------------------------------------------- */

static bool write_model(FormedModel *f, const Model *m, char *error) {
    size_t n = onnx__model_proto__get_packed_size(m);
    f->file = memfd_create("model.onnx", 0);
    void *to = f->file < 0 || ftruncate(f->file, (off_t)n)
                   ? MAP_FAILED
                   : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, f->file, 0);
    if (to == MAP_FAILED)
        return snprintf(error, 256, "no memory for another form of the model"), false;
    onnx__model_proto__pack(m, to);
    munmap(to, n);
    snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->file);
    return true;
}

bool form_make(FormedModel *f, Form form, const char *model, const char *set, char *error) {
    size_t n;
    char *file = read_whole(model, &n, error);
    *f = (FormedModel){.file = -1};
    if (!file) return false;
    Model *m = onnx__model_proto__unpack(NULL, n, (uint8_t *)file);
    free(file);
    if (!m || !m->graph) return snprintf(error, 256, "\"%.180s\" is no model", model), false;
    f->fixed = host_alloc(m->graph->n_input, 1);
    bool ok = form != FORM_CONSTANT || make_constant(f, m->graph, set, error);
    if (form == FORM_SYMBOLIC) make_symbolic(m->graph);
    ok = ok && write_model(f, m, error);
    onnx__model_proto__free_unpacked(m, NULL);
    return ok;
}

void form_drop(FormedModel *f) {
    if (f->file >= 0) close(f->file);
    free(f->fixed);
    *f = (FormedModel){.file = -1};
}

bool form_named(const char *text, Form *form) {
    static const char *const names[] = {
        [FORM_GIVEN] = "given", [FORM_SYMBOLIC] = "symbolic", [FORM_CONSTANT] = "constant"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) return *form = (Form)i, true;
    return false;
}
