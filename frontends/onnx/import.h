/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the importer share. */
#ifndef WEIR_FRONTENDS_ONNX_IMPORT_H
#define WEIR_FRONTENDS_ONNX_IMPORT_H

#include "onnx.h"
#include "proto.h"

/* One import. */
typedef struct Import {
    Arena *arena;
    Ctx *ctx;
    const OnnxModel *model;
    OnnxFunctions function;
    const ImportOptions *options;
    const char *folder; /* of external data, NULL: none */
    Table *files;       /* mapped external files by interned path */
    Graph *root;
    Table *symbols; /* interned dim_param -> Dim */
    Dim unknown;    /* stands for a declared dim that is no symbol of the inputs */
    int64_t nodes;  /* imported so far, functions inlined */
} Import;

/* A function being inlined: whose call binds its attributes. */
typedef struct Scope Scope;
typedef struct Frame {
    const OnnxFunction *function;
    const OnnxNode *call;
    Scope *caller;
    int depth;
} Frame;

/* Names in view: those of a graph, or of a function body inlined into one. */
struct Scope {
    Graph *graph;
    Table *names;       /* interned name -> value number + 1 */
    Table *declared;    /* interned name -> const OnnxValueInfo * */
    Scope *outer;       /* of the enclosing graph; NULL in a function's body */
    const Frame *frame; /* NULL: the model's own graphs */
    OnnxOpset *const *opset;
    size_t nopset;
    const char *prefix; /* of new names, for inlined functions */
};

/* ---- tensor.c, external.c: weights ---------------------------------------------------------- */

/* A VALUE_PARAM. `where->tensor` is set to its name meanwhile. */
Value import_tensor(Import *im, const OnnxTensor *t, const char *name);
Value import_sparse(Import *im, const OnnxSparse *s, const char *name);
/* Texts with their lengths in bytes; the texts stay where they are. */
void import_strings(Import *im, const ProtobufCBinaryData *s, size_t n, const char *const **text,
                    const int64_t **bytes);
/* The bytes of external data: a view of the mapped file, `need` long. */
const void *import_external(Import *im, const OnnxTensor *t, int64_t need);
/* Maps a whole file, released with the arena. */
Span import_map(Arena *arena, const char *path, Code code);

/* ---- types.c: types and symbols ------------------------------------------------------------- */

/* Finds the model's symbols in its inputs; applies the overrides. */
void import_symbols(Import *im, const OnnxGraph *g);
/* `input` names the input whose dims may be symbols of their own; NULL: a declaration only. */
Type import_type(Import *im, const OnnxType *t, const char *input);
/* Letters, digits and underscores, not starting with a digit. */
const char *import_identifier(Import *im, const char *name);

/* ---- order.c -------------------------------------------------------------------------------- */

/* Topological order of nodes, stable; E_MODEL names a tensor of a cycle. */
const int *import_order(Import *im, OnnxNode *const *node, int n);

/* ---- attribute.c ---------------------------------------------------------------------------- */

/* The attribute that `a` stands for, and the scope to read it in: follows references to the
 * attributes of functions; NULL when the caller gives none and there is no default. E_ATTRIBUTE
 * outside a function, where there is no caller. */
const OnnxAttribute *import_reference(Ctx *ctx, const OnnxAttribute *a, Scope **scope);
/* The node's attributes; nested graphs through import_graph. */
void import_attributes(Import *im, Scope *scope, const OnnxNode *from, Node *to);
/* The value of a Constant node. */
Value import_constant(Import *im, Scope *scope, const OnnxNode *node, const char *name);

/* ---- import.c ------------------------------------------------------------------------------- */

Graph *import_graph(Import *im, const OnnxGraph *g, Scope *outer);
static inline const char *text_or(const char *s, const char *otherwise) {
    return s && s[0] ? s : otherwise;
}

#endif
