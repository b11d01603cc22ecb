/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions in RE2's syntax, matched in time linear in the text: for RegexFullMatch. */
#ifndef WEIR_REGEX_H
#define WEIR_REGEX_H

#include "runtime/weir_model.h"

typedef struct weir_regex weir_regex;

/* NULL with a reason (static text) for what is no such expression, or too large. */
weir_regex *weir_regex_new(weir_string pattern, const char **reason);
int weir_regex_full(weir_regex *r, weir_string text); /* does all of the text match? */
void weir_regex_free(weir_regex *r);

/* The next code point; a byte that is no UTF-8 stands for itself, above 0x110000. */
uint32_t weir_utf8_next(const char **at, const char *end);
char *weir_utf8_put(char *at, uint32_t letter); /* at most 4 bytes; the end */

#endif
