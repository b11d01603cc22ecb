/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the command line: each gets its arguments after the verb and returns the exit code.
 */
#ifndef WEIR_TOOLS_VERBS_H
#define WEIR_TOOLS_VERBS_H

#include "tools/weir/args.h"

typedef struct Verb {
    const char *name, *what, *usage;
    int (*run)(Args *args);
    const char *const *without; /* options of compile that it does not take, up to NULL ... */
    const char *why;            /* ... and why not */
} Verb;

int verb_compile(Args *args);
int verb_run(Args *args);
int verb_test(Args *args);
int verb_bench(Args *args);
int verb_check(Args *args);
int verb_doctor(Args *args);
int verb_cache(Args *args);
int verb_dump(Args *args);
int verb_profile(Args *args);
int verb_tune(Args *args);
int verb_report(Args *args);
int verb_extract(Args *args);
int verb_info(Args *args);
int verb_verify(Args *args);
int verb_explain(Args *args);
int verb_ops(Args *args);

#endif
