/* SPDX-License-Identifier: Apache-2.0 */
/* What the families of ai.onnx.ml share: lists in attributes, transforms of scores. */
#ifndef WEIR_FRONTENDS_ONNX_ML_H
#define WEIR_FRONTENDS_ONNX_ML_H

#include "nn.h"

#define ML "ai.onnx.ml"
#define ML_NUMS "f32 f64 i64 i32"

/* A list that stands in one of the attributes STEM_tensor, STEM_strings, STEM_int64s (or
 * STEM_ints), STEM_floats: its attribute, type and length. False when none of them is there. */
typedef struct MlList {
    const Attr *attr;
    DType type;
    int64_t n;
} MlList;
bool ml_list(const Node *node, const char *stem, MlList *list);
MlList ml_need(Ctx *ctx, const Node *node, const char *stem); /* E_ATTRIBUTE when it is not there */
int ml_literal(Lower *lo, const char *name, const MlList *list); /* of rank 1 */
/* The attribute `name` as floats, NULL when it is absent; E_ATTRIBUTE unless there are n (n < 0:
 * any number, which *count gets). */
const float *ml_floats(Ctx *ctx, const Node *node, const char *name, int64_t n, int64_t *count);
/* Operand 0 has n features in a row, or (n 0) as many as it has; E_SHAPE with the rule. */
void ml_features(Infer *in, int64_t n, const char *rule);
int ml_floats_literal(Lower *lo, const char *name, const float *at, int64_t n);
/* Classifiers: operand 0 as f32 [N,C]; result 0 are labels [N], result 1 so many scores a row. */
int ml_rows(Lower *lo);
void ml_classes_infer(Infer *in, int64_t scores);
/* Result 0: the label of each row's first largest score. */
void ml_label(Lower *lo, int scores);
/* Two scores from one [N,1], that of the other class by `first`, an expression over it; result 1
 * from them. */
int ml_pair(Lower *lo, int score, const char *first);
void ml_pair_scores(Lower *lo, int score, const char *first, const char *word);
/* Operand 0 as f32 (f64 stays when `wide`). */
int ml_numbers(Lower *lo, bool wide);
/* scores [N,C] through what the word names, into `to`. */
void ml_transform(Lower *lo, int scores, int to, const char *word);

#endif
