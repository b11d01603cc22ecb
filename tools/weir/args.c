/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of command-line arguments. */
#include "tools/weir/args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool args_next(Args *a) {
    if (a->next >= a->argc) return false;
    const char *arg = a->argv[a->next++];
    a->name[0] = '\0';
    a->inlined = NULL;
    if (arg[0] != '-' || !arg[1]) return true;
    bool word = arg[1] == '-';
    const char *text = arg + (word ? 2 : 1);
    size_t n = word ? strcspn(text, "=") : 1;
    if (n >= sizeof a->name) n = sizeof a->name - 1;
    memcpy(a->name, text, n);
    a->name[n] = '\0';
    if (text[n]) a->inlined = text + n + (text[n] == '=');
    return true;
}

bool args_is(const Args *a, const char *option) {
    return strcmp(a->name, option) == 0;
}

const char *args_value(Args *a) {
    if (a->inlined) return a->value = a->inlined;
    if (a->next < a->argc) return a->value = a->argv[a->next++];
    usage_error(a, "option \"%s\" needs a value", args_operand(a));
    return NULL;
}

const char *args_operand(const Args *a) {
    return a->argv[a->next - 1];
}

int usage_error(const Args *a, const char *fmt, ...) {
    va_list list;
    va_start(list, fmt);
    fprintf(stderr, "weir %s: ", a->verb);
    vfprintf(stderr, fmt, list);
    fprintf(stderr, "; \"weir %s --help\" lists what it takes\n", a->verb);
    va_end(list);
    return EXIT_USAGE;
}

bool args_int(Args *a, long lo, long hi, long *out) {
    const char *text = args_value(a);
    if (!text) return false;
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || *end || end == text || v < lo || v > hi) {
        usage_error(a, "\"--%s %s\" is not a number from %ld to %ld", a->name, text, lo, hi);
        return false;
    }
    *out = v;
    return true;
}

bool args_double(Args *a, double *out) {
    const char *text = args_value(a);
    if (!text) return false;
    char *end;
    double v = strtod(text, &end);
    if (*end || end == text) {
        usage_error(a, "\"--%s %s\" is not a number", a->name, text);
        return false;
    }
    *out = v;
    return true;
}
