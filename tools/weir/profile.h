/* SPDX-License-Identifier: Apache-2.0 */
/* Times of a model's kernels in place, beside what the movement counter predicts. */
#ifndef WEIR_TOOLS_PROFILE_H
#define WEIR_TOOLS_PROFILE_H

#include "tools/weir/engine.h"

typedef struct ProfileOptions {
    InputOptions in;
    int threads;
    double min_time; /* seconds to measure for */
    const char *format,
        *output;       /* text, json, or html: report_page; output NULL: standard output */
    const char *trace; /* a Chrome/Perfetto trace of the last run goes here; NULL: nowhere */
} ProfileOptions;

/* Compiles `model` (.onnx or .ir) with timers, runs it, prints the table. The exit code. */
int profile_model(weir_context *c, const char *model, const ProfileOptions *o);

#endif
