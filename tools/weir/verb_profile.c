/* SPDX-License-Identifier: Apache-2.0 */
/* weir profile: where a run's time goes, kernel by kernel. */
#include <string.h>

#include "tools/weir/profile.h"
#include "tools/weir/session.h"
#include "tools/weir/verbs.h"

int verb_profile(Args *a) {
    const char *model = NULL;
    long threads = 1;
    bool bad = false;
    ProfileOptions o = {.in.random = true, .min_time = 1, .format = "text"};
    weir_context *c = context_new(false);
    while (!bad && args_next(a)) {
        if (!a->name[0] && !model)
            model = args_operand(a);
        else if (args_is(a, "format"))
            bad = !(o.format = args_value(a));
        else if (args_is(a, "o") || args_is(a, "output"))
            bad = !(o.output = args_value(a));
        else if (args_is(a, "trace"))
            bad = !(o.trace = args_value(a));
        else if (args_is(a, "min-time"))
            bad = !args_double(a, &o.min_time);
        else if (args_is(a, "threads"))
            bad = !args_int(a, 0, 1024, &threads);
        else if (!input_option(a, &o.in, &bad) && !compile_option(a, c, &bad))
            bad = usage_error(a, "does not know \"%s\"", args_operand(a));
    }
    if (!bad && !model) bad = usage_error(a, "needs a model");
    if (!bad && is_library(model))
        bad = usage_error(a, "needs the model, not a library: it compiles it with timers");
    if (!bad && strcmp(o.format, "text") && strcmp(o.format, "json") && strcmp(o.format, "html"))
        bad = usage_error(a, "\"--format %s\" is none of text, json, html", o.format);
    bad = bad || page_unread(a, o.format, o.output);
    o.threads = (int)threads;
    int rc = bad ? EXIT_USAGE : profile_model(c, model, &o);
    weir_context_free(c);
    return rc;
}
