/* SPDX-License-Identifier: Apache-2.0 */
/* A page: its style, the d3 library, its data and its script, put together from files that weir
 * carries in itself (tools/weir/page/). */
#include "tools/weir/page.h"

#include <string.h>

#include "compiler/embedded.h"

extern const EmbeddedFile page_files[];
extern const int page_files_count;

static const char *page_file(const char *name) {
    for (int i = 0; i < page_files_count; i++) {
        const char *slash = strrchr(page_files[i].name, '/');
        if (!strcmp(slash ? slash + 1 : page_files[i].name, name)) return page_files[i].text;
    }
    return NULL;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int line_number(Lines *lines, Ctx *ctx, const char *at, size_t n) {
    const char *line = intern_n(ctx, at, n);
    intptr_t number = (intptr_t)table_get(lines->number, line);
    if (!number) {
        vec_push(lines->arena, &lines->line, line);
        table_put(lines->number, line, (void *)(number = lines->line.n));
    }
    return (int)number - 1;
}

void lines_put(Lines *lines, Text *json, Ctx *ctx, const char *text) {
    int first = 0, count = 0;
    const char *comma = "";
    if (!lines->number) lines->number = table_new(lines->arena);
    text_put(json, "[");
    while (*text) {
        size_t n = strcspn(text, "\n");
        int number = line_number(lines, ctx, text, n);
        if (count && number == first + count) {
            count++;
        } else {
            if (count) text_printf(json, "%s[%d,%d]", comma, first, count), comma = ",";
            first = number, count = 1;
        }
        text += n + (text[n] == '\n');
    }
    if (count) text_printf(json, "%s[%d,%d]", comma, first, count);
    text_put(json, "]");
}

void lines_json(const Lines *lines, Text *out) {
    text_put(out, "[");
    for (int i = 0; i < lines->line.n; i++) {
        text_put(out, i ? ",\n" : "");
        text_json(out, lines->line.at[i]);
    }
    text_put(out, "]");
}

/* ---- pages ----------------------------------------------------------------------------------- */

void put_html(Text *out, const char *text) {
    for (; *text; text++) switch (*text) {
        case '<': text_put(out, "&lt;"); break;
        case '>': text_put(out, "&gt;"); break;
        case '&': text_put(out, "&amp;"); break;
        default: text_put_n(out, text, 1);
        }
}

/* JSON inside a script element: "</" would end it. */
static void put_json(Text *out, const char *json) {
    for (const char *end; (end = strstr(json, "</")); json = end + 2) {
        text_put_n(out, json, (size_t)(end - json));
        text_put(out, "<\\/");
    }
    text_put(out, json);
}

void page_put(Text *out, const char *title, const char *script, const char *json) {
    const char *library = page_file("d3.min.js");
    if (!library)
        fail(arena_ctx(out->arena), E_OPTION,
             "this weir was built without d3, which pages need: install the package \"libjs-d3\" "
             "and build again");
    text_put(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>");
    put_html(out, title);
    text_printf(out, "</title>\n<style>\n%s</style></head>\n<body>\n<script>\n",
                page_file("page.css"));
    text_put(out, library);
    text_put(out, "\n</script>\n<script>\nconst DATA = ");
    put_json(out, json);
    text_put(out, ";\n</script>\n<script>\n");
    text_put(out, page_file("page.js"));
    text_put(out, page_file(script));
    text_put(out, "</script></body></html>\n");
}
