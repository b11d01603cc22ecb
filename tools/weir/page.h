/* SPDX-License-Identifier: Apache-2.0 */
/* Pages to look at in a browser: one file, which needs no network and nothing beside it. */
#ifndef WEIR_TOOLS_PAGE_H
#define WEIR_TOOLS_PAGE_H

#include "tools/weir/engine.h"
#include "tools/weir/movement.h"
#include "tools/weir/session.h"

/* Lines of texts, each stored once however many stages hold it. */
typedef struct Lines {
    Arena *arena;
    Table *number; /* interned line -> its number + 1 */
    VEC(const char *) line;
} Lines;

/* A text as JSON: runs [first line, count] of lines. */
void lines_put(Lines *lines, Text *json, Ctx *ctx, const char *text);
void lines_json(const Lines *lines, Text *out);

void put_html(Text *out, const char *text); /* as it may stand in HTML and SVG */

/* The page of a script of the tree ("dump.js", "report.js") over its data, a JSON object that the
 * script finds as DATA. */
void page_put(Text *out, const char *title, const char *script, const char *json);

/* `dump --format html`: takes the source through all passes and on to C, noting every stage. */
void dump_page(Session *s, const InputOptions *sizes, Text *out);
/* `report --format html`, and `profile`'s, whose kernels have times: of the session's flow. */
void report_page(Session *s, const Movements *all, const InputOptions *sizes, int threads,
                 double run_ms, Text *out);

#endif
