/* SPDX-License-Identifier: Apache-2.0 */
/* A pass of one's own: values that are kept above 0 are kept below 6 too, `max(x, 0.0)` becomes
 * `min(max(x, 0.0), 6.0)`. Built as a library, and used by
 *
 *     weir compile M.onnx --pass-plugin "./plugin.so:after clean" -o M.so */
#include <string.h>

#include "compiler/weir_plugin.h"

/* The parenthesis that ends what begins behind `at`, or NULL. */
static const char *closing(const char *at) {
    for (int depth = 1; *at && *at != '\n'; at++) {
        depth += (*at == '(') - (*at == ')');
        if (!depth) return at;
    }
    return NULL;
}

int weir_plugin(const weir_plugin_call *call) {
    static const char open[] = "max(", zero[] = ", 0.0";
    const char *rest = call->text, *found = rest;
    while ((found = strstr(found, open))) {
        const char *first = found;
        const char *end = closing(found += strlen(open));
        if (!end) {
            call->error(call->host, "a parenthesis is missing");
            return 1;
        }
        if (end - found < (long)strlen(zero) || strncmp(end - strlen(zero), zero, strlen(zero)))
            continue;
        call->put(call->host, rest, (size_t)(first - rest));
        call->put(call->host, "min(", 4);
        call->put(call->host, first, (size_t)(end + 1 - first));
        call->put(call->host, ", 6.0)", 6);
        rest = found = end + 1;
    }
    call->put(call->host, rest, strlen(rest));
    return 0;
}
