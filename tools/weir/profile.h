/* SPDX-License-Identifier: Apache-2.0 */
/* Times of a model's kernels in place, beside what the movement counter predicts. */
#ifndef WEIR_TOOLS_PROFILE_H
#define WEIR_TOOLS_PROFILE_H

#include "tools/weir/engine.h"
#include "tools/weir/session.h"

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

/* The same as numbers, in the session's arena, compiled with the options of its context (of which
 * `profile` is one). False after diagnostics. */
typedef struct KernelTimes {
    double run_ms; /* median of a run */
    Table *by_name;
} KernelTimes;
bool profile_times(Session *s, const ProfileOptions *o, KernelTimes *times);
double kernel_ms(const KernelTimes *times, const char *kernel); /* an interned name; 0: not met */

#endif
