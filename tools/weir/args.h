/* SPDX-License-Identifier: Apache-2.0 */
/* Command-line arguments of the verbs: `--x V` and `--x=V` are equal, `-o V` and `-jN` are short
 * forms, everything else is an operand. */
#ifndef WEIR_TOOLS_ARGS_H
#define WEIR_TOOLS_ARGS_H

#include <stdbool.h>

enum { EXIT_DONE = 0, EXIT_MODEL = 1, EXIT_USAGE = 2, EXIT_OURS = 3 };

typedef struct Args {
    int argc;
    char **argv;
    int next;
    const char *verb;
    const char *value;          /* of the last option taken */
    char name[64];              /* of the current option, without dashes; empty for an operand */
    const char *inlined;        /* text after '=', or NULL */
    const char *const *without; /* options of compile that the verb does not take, and why not */
    const char *why;
    const char *compile; /* the last option that is one of compiling, as it was given, or NULL */
} Args;

/* Moves to the next argument: true while there is one. `name` is then set for an option. */
bool args_next(Args *a);
bool args_is(const Args *a, const char *option);
/* The option's value; prints a usage error and returns NULL when it is missing. */
const char *args_value(Args *a);
/* The current operand (when `name` is empty). */
const char *args_operand(const Args *a);
/* Prints "weir VERB: ..." to stderr and returns EXIT_USAGE. */
int usage_error(const Args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A whole number within lo..hi; false after a usage error. */
bool args_int(Args *a, long lo, long hi, long *out);
bool args_double(Args *a, double *out);

#endif
