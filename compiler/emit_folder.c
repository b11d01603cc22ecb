/* SPDX-License-Identifier: Apache-2.0 */
/* --emit c: a folder that `cc *.c -lm` builds without Weir: the model's units, the runtime's
 * sources (flat: "runtime/x.h" becomes "x.h"), a header with this model's names and types, a small
 * program that runs it once, and the weights. --emit header: the two headers alone. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "driver.h"
#include "embedded.h"

/* ---- names and types ------------------------------------------------------------------------- */

static const char *identifier(Arena *arena, const char *name) {
    char *id =
        arena_printf(arena, "%s%s", isdigit((unsigned char)name[0]) || !name[0] ? "_" : "", name);
    for (char *c = id; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return id;
}

static const char *upper(Arena *arena, const char *name) {
    char *id = arena_printf(arena, "%s", name);
    for (char *c = id; *c; c++) *c = (char)toupper((unsigned char)*c);
    return id;
}

/* `void` where C has no type of that size. */
static const char *c_type(DType t) {
    static const char *const ints[] = {"int8_t", "int16_t", "int32_t", "int64_t"};
    int bits = dtype_bits(t), size = bits == 8    ? 0
                                     : bits == 16 ? 1
                                     : bits == 32 ? 2
                                     : bits == 64 ? 3
                                                  : -1;
    TypeClass c = dtype_class(t);
    if (size < 0 || c == CLASS_COMPLEX || c == CLASS_OBJECT) return "void";
    if (c == CLASS_FLOAT && size >= 2) return size == 2 ? "float" : "double";
    if (c == CLASS_INT) return ints[size];
    static const char *const words[] = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"};
    return words[size];
}

/* The parameter that stands for a dim: a symbol's name, or its place; NULL for a constant. */
static const char *dim_parameter(Arena *arena, const Cont *c, int k) {
    if (dim_is_const(c->shape[k], NULL)) return NULL;
    const char *symbol = dim_sym_name(c->shape[k]);
    return symbol ? identifier(arena, symbol) : arena_printf(arena, "dim%d", k);
}

static bool named_before(Arena *arena, const Cont *c, int k, const char *parameter) {
    for (int i = 0; i < k; i++) {
        const char *other = dim_parameter(arena, c, i);
        if (other && strcmp(other, parameter) == 0) return true;
    }
    return false;
}

/* ---- the header ------------------------------------------------------------------------------ */

static void put_comment(Arena *arena, Text *out, const Cont *c) {
    char *name = arena_printf(arena, "%s", c->name);
    for (char *at = name; *at; at++)
        if (*at == '*' || *at == '\\' || (unsigned char)*at < 32) *at = '_';
    text_printf(out, "\n/* \"%s\": %s[", name, dtype_name(c->type));
    for (int k = 0; k < c->rank; k++)
        text_printf(out, "%s%s", k ? ", " : "", dim_str(arena_ctx(arena), c->shape[k]));
    text_put(out, "] */\n");
}

/* A function that makes the argument for one port. */
static void put_port(Arena *arena, Text *out, const char *model, const Cont *c) {
    bool in = c->kind == CONT_IN;
    put_comment(arena, out, c);
    text_printf(out, "static inline weir_tensor %s_%s_%s(%s%s *data", model, in ? "in" : "out",
                identifier(arena, c->name), in ? "const " : "", c_type(c->type));
    for (int k = 0; in && k < c->rank; k++) {
        const char *parameter = dim_parameter(arena, c, k);
        if (parameter && !named_before(arena, c, k, parameter))
            text_printf(out, ", int64_t %s", parameter);
    }
    text_printf(out, "%s) {\n    weir_tensor t;\n    memset(&t, 0, sizeof t);\n",
                in ? "" : ", int64_t capacity");
    text_printf(out, "    t.data = (void *)data;\n    t.dtype = %d;\n    t.rank = %d;\n",
                dtype_onnx(c->type), c->rank);
    for (int k = 0; in && k < c->rank; k++) {
        const char *parameter = dim_parameter(arena, c, k);
        if (!parameter) parameter = dim_str(arena_ctx(arena), c->shape[k]);
        text_printf(out, "    t.dims[%d] = %s;\n", k, parameter);
    }
    text_printf(out, "%s    return t;\n}\n", in ? "" : "    t.capacity = capacity;\n");
}

static void put_order(Arena *arena, Text *out, const Flow *flow, const char *model, ContKind kind) {
    const char *word = kind == CONT_IN ? "in" : "out";
    text_printf(out, "enum {");
    for (int i = 0; i < flow->cont.n; i++)
        if (flow->cont.at[i].kind == kind)
            text_printf(out, " %s_%s_%s,", upper(arena, model), upper(arena, word),
                        upper(arena, identifier(arena, flow->cont.at[i].name)));
    text_printf(out, " %s_%sPUTS };\n", upper(arena, model), upper(arena, word));
}

static const char *header_text(Arena *arena, const Flow *flow, const char *model) {
    Text out = {.arena = arena};
    text_printf(&out,
                "/* What the library of model %s takes and gives; made by weir %s. The enums give "
                "the order of\n"
                " * the arguments of weir_run; the functions make one argument each. */\n",
                model, WEIR_VERSION);
    text_printf(
        &out, "#ifndef %s_H\n#define %s_H\n\n#include <string.h>\n\n#include \"weir_model.h\"\n\n",
        upper(arena, model), upper(arena, model));
    text_put(&out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\nconst weir_model "
                   "*weir_model_descriptor(void);\n\n");
    put_order(arena, &out, flow, model, CONT_IN);
    put_order(arena, &out, flow, model, CONT_OUT);
    for (int i = 0; i < flow->cont.n; i++)
        if (flow->cont.at[i].kind == CONT_IN || flow->cont.at[i].kind == CONT_OUT)
            put_port(arena, &out, model, &flow->cont.at[i]);
    text_put(&out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return text_str(&out);
}

/* ---- the runtime ----------------------------------------------------------------------------- */

static const char *flat_text(Arena *arena, const char *text) {
    static const char include[] = "#include \"runtime/";
    Text out = {.arena = arena};
    for (const char *at; (at = strstr(text, include)); text = at + sizeof include - 1) {
        text_put_n(&out, text, (size_t)(at - text));
        text_put(&out, "#include \"");
        if (strncmp(at + sizeof include - 1, "image/", 6) == 0) at += 6;
    }
    text_put(&out, text);
    return text_str(&out);
}

/* Does a unit's text use the decoders of pictures, beyond declaring them? */
static bool uses_pictures(const char *text) {
    static const char name[] = "weir_call_image_";
    for (const char *at = text; (at = strstr(at, name)); at++) {
        bool declared =
            at - text > 5 && (!memcmp(at - 5, "void ", 5) || !memcmp(at - 4, "i64 ", 4));
        if (!declared) return true;
    }
    return false;
}

/* Does the model decode pictures? */
static bool has_pictures(const Driver *d) {
    for (int i = 0; i < d->units.n; i++)
        if (uses_pictures(d->units.at[i].text)) return true;
    return false;
}

static void write_runtime(Driver *d) {
    bool pictures = has_pictures(d);
    for (int i = 0; i < embedded_files_count; i++) {
        const EmbeddedFile *f = &embedded_files[i];
        if (strncmp(f->name, "runtime/", 8) != 0) continue;
        bool image = strncmp(f->name + 8, "image/", 6) == 0;
        if (image && !pictures) continue;
        if (!d->device && strncmp(f->name, "runtime/cuda", 12) == 0) continue;
        size_t n = strlen(f->name);
        bool source = strcmp(f->name + n - 2, ".c") == 0;
        const char *flat = flat_text(d->arena, f->text);
        output_text(d->arena, d->options->emit_dir,
                    arena_printf(d->arena, "%s%s%s", source ? "weir_" : "",
                                 source && image ? "image_" : "", f->name + (image ? 14 : 8)),
                    source ? arena_printf(d->arena, "#define _GNU_SOURCE 1\n%s", flat) : flat);
    }
}

/* How a unit is compiled: with all others, or, for one of several CPUs, by itself. */
static const char *unit_head(const Driver *d, const Unit *unit, const char *with) {
    Text head = {.arena = d->arena};
    const char *system = target_c_triple(&d->host);
    text_printf(&head, "/* Build: %s -O1",
                system ? arena_printf(d->arena, "%s-gcc", system) : "cc");
    for (const char *const *f = unit->flags; *f; f++)
        if (strncmp(*f, "--target", 8) != 0) text_printf(&head, " %s", *f);
    if (d->lesser.n)
        text_printf(&head,
                    " -fPIC -c %s\n * (each unit by its own options; then cc -shared -fPIC *.o "
                    "weir_*.c%s -lm -o model.so) */\n",
                    unit->name, with);
    else
        text_printf(&head,
                    " -shared -fPIC *.c%s -lm -o model.so\n * (cc *.c%s -lm makes a program that "
                    "runs the model once.) */\n",
                    with, with);
    text_put(&head, "#pragma GCC diagnostic ignored \"-Wpsabi\"\n");
    return text_str(&head);
}

/* ---- the folder ------------------------------------------------------------------------------ */

void driver_emit_folder(Driver *d) {
    const Options *o = d->options;
    if (mkdir(o->emit_dir, 0777) != 0 && errno != EEXIST)
        fail(d->ctx, E_FILE, "cannot make folder \"%s\": %s", o->emit_dir, strerror(errno));
    if (!d->stage.program)
        fail(d->ctx, E_OPTION, "there is nothing to emit after \"%s\"", o->stop_after);
    const Flow *flow = d->stage.program->flow;
    const char *model = identifier(d->arena, flow->name),
               *side = arena_printf(d->arena, "%s.weights", model);
    output_text(d->arena, o->emit_dir, arena_printf(d->arena, "%s.h", model),
                header_text(d->arena, flow, model));
    output_text(d->arena, o->emit_dir, "weir_model.h", embedded_text("runtime/weir_model.h"));
    if (o->emit == EMIT_HEADER) return;
    driver_emit(d, side, false);
    if (d->device)
        output_text(d->arena, o->emit_dir, arena_printf(d->arena, "%s.cu", model), d->device);
    if (o->emit == EMIT_CU && !d->device)
        fail(d->ctx, E_OPTION, "there is no text of kernels for a GPU; give \"target\" \"cuda\"");
    if (o->emit == EMIT_CU) return;
    driver_make_image(d);
    const char *with = has_pictures(d) ? " $(pkg-config --cflags --libs libjpeg libpng libwebp "
                                         "libopenjp2 zlib)"
                                       : "";
    for (int i = 0; i < d->units.n; i++) {
        const Unit *unit = &d->units.at[i];
        const char *text = arena_printf(d->arena, "%s%s", unit_head(d, unit, with), unit->text);
        output_text(d->arena, o->emit_dir, unit->name, text);
    }
    write_runtime(d);
    const char *example = flat_text(d->arena, embedded_text("compiler/example.c"));
    output_text(d->arena, o->emit_dir, "main.c", example);
    if (d->weights.bytes)
        driver_write_weights(d, arena_printf(d->arena, "%s/%s", o->emit_dir, side));
}
