/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of `weir test`: where they lie on disk, and running one of them. */
#ifndef WEIR_TOOLS_CASES_H
#define WEIR_TOOLS_CASES_H

#include "tools/weir/engine.h"
#include "tools/weir/form.h"

typedef enum {
    CASE_PASS,
    CASE_FAIL,
    CASE_UNSUPPORTED,
    CASE_CRASH,
    CASE_TIMEOUT,
    CASE_STATES
} CaseState;

/* `model` is DIR/model.onnx with DIR/test_data_set*; or (light) DIR/NAME.onnx with
 * DIR/NAME_output_K.pb, whose inputs count up from 0 in steps of 1/n. */
typedef struct Case {
    char *model, *name;
    bool light;
    CaseState state;
    char *reason;
    Distance distance; /* the worst of all outputs, sets and engines */
    double ms;
} Case;

typedef struct Cases {
    Case *at;
    int n, cap;
} Cases;

typedef struct CaseOptions {
    EngineKind engine[2];
    Form form;
    int engines, threads;
    Tolerance within;
    int noption;
    const char *option[64][2]; /* compile options */
} CaseOptions;

/* Adds the cases under a folder, in the order of names; or one model file. */
void cases_find(Cases *cases, const char *path);
/* The reason of a case that passes though its results differ: its model draws random numbers, and
 * they are distributed as expected. */
extern const char case_by_property[];
/* Runs it in this process. `reason` holds 1000 bytes. */
CaseState case_run(const CaseOptions *o, const Case *one, Distance *distance, char *reason);

#endif
