/* SPDX-License-Identifier: Apache-2.0 */
/* A laid-out drawing as an SVG file of its own. */
#include "tools/weir/drawing.h"
#include "tools/weir/page.h"

#include <math.h>
#include <string.h>

static const char *fill_of(const DrawNode *n) {
    static const char *const fill[][2] = {
        {"contraction", "#b9cbe0"},  {"normalisation", "#dcc3d4"}, {"reduction", "#c3e0de"},
        {"element-wise", "#f9debb"}, {"movement", "#d6dce2"},      {"call", "#f4bdbd"},
    };
    for (size_t i = 0; i < sizeof fill / sizeof *fill; i++)
        if (!strcmp(n->class, fill[i][0])) return fill[i][1];
    return !strcmp(n->kind, "in") || !strcmp(n->kind, "out") ? "#cfe8cf" : "#e3e9f0";
}

/* The end of a text, as far as it fits the node's width, which tells more than its beginning. */
static void put_label(Text *out, const DrawNode *n, const char *text, double dy,
                      const char *style) {
    text = draw_tail(text);
    size_t room = (size_t)(n->w / 5.6f), length = strlen(text);
    text_printf(out, "<text x=\"%.0f\" y=\"%.0f\" class=\"%s\">", (double)n->x, (double)n->y + dy,
                style);
    if (length > room) {
        text_put(out, "…");
        text += length - room + 1;
        while ((*text & 0xc0) == 0x80) text++;
    }
    put_html(out, text);
    text_put(out, "</text>");
}

static void put_edge(Text *out, const Drawing *d, const DrawEdge *e) {
    double width = e->bytes > 512 ? fmin(11, 0.8 * log2(e->bytes / 256)) : 0.7;
    const DrawNode *a = &d->node.at[e->from], *b = &d->node.at[e->to];
    text_put(out, "<path d=\"M");
    if (e->npoint < 4)
        text_printf(out, "%.0f,%.0fL%.0f,%.0f", (double)a->x, (double)(a->y + a->h / 2),
                    (double)b->x, (double)(b->y - b->h / 2));
    for (int i = 0; e->npoint >= 4 && i < e->npoint; i++)
        text_printf(out, "%s%.0f,%.0f",
                    i == 1 ? "C"
                    : i    ? " "
                           : "",
                    (double)e->point[2 * i], (double)e->point[2 * i + 1]);
    text_printf(out, "\" stroke-width=\"%.1f\"%s><title>", width,
                e->again ? " stroke-dasharray=\"5 4\"" : "");
    put_html(out, e->what);
    text_printf(out, ": %.0f bytes</title></path>\n", e->bytes);
}

static void put_node(Text *out, const DrawNode *n) {
    text_printf(out, "<g><title>%s ", n->kind);
    put_html(out, n->name);
    text_printf(out,
                "</title><rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"5\" "
                "fill=\"%s\"/>",
                (double)(n->x - n->w / 2), (double)(n->y - n->h / 2), (double)n->w, (double)n->h,
                fill_of(n));
    bool op = !strcmp(n->kind, "op");
    put_label(out, n, op ? n->label : n->name, -2, "name");
    put_label(out, n, op ? n->name : n->label, 10, "sub");
    if (n->times > 1)
        text_printf(out, "<text x=\"%.0f\" y=\"%.0f\" class=\"times\">×%d</text>",
                    (double)(n->x + n->w / 2 + 10), (double)n->y + 4, n->times);
    text_put(out, "</g>\n");
}

static void put_group(Text *out, const Drawing *d, int g) {
    double x0 = INFINITY, y0 = INFINITY, x1 = -INFINITY, y1 = -INFINITY;
    for (int i = 0; i < d->node.n; i++) {
        const DrawNode *n = &d->node.at[i];
        if (n->group != g) continue;
        x0 = fmin(x0, (double)(n->x - n->w / 2) - 6), x1 = fmax(x1, (double)(n->x + n->w / 2) + 6);
        y0 = fmin(y0, (double)(n->y - n->h / 2) - 6), y1 = fmax(y1, (double)(n->y + n->h / 2) + 6);
    }
    if (x1 < x0) return;
    text_printf(out,
                "<rect class=\"kernel\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" "
                "rx=\"8\"><title>kernel ",
                x0, y0, x1 - x0, y1 - y0);
    put_html(out, d->group.at[g]);
    text_put(out, "</title></rect>\n");
}

void drawing_svg(Text *out, const Drawing *d) {
    text_printf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-20 -20 %.0f %.0f\">\n<style>"
                "text{font:10px sans-serif;text-anchor:middle}.sub{font-size:8.5px;fill:#3d4853}"
                ".times{font-weight:700;fill:#d6336c}path{fill:none;stroke:#8794a3;"
                "stroke-opacity:.6}g rect{stroke:#0004}.kernel{fill:#4c78a811;stroke:#4c78a866}"
                "</style>\n",
                (double)d->width + 40, (double)d->height + 40);
    for (int g = 0; g < d->group.n; g++) put_group(out, d, g);
    for (int i = 0; i < d->edge.n; i++) put_edge(out, d, &d->edge.at[i]);
    for (int i = 0; i < d->node.n; i++) put_node(out, &d->node.at[i]);
    text_put(out, "</svg>\n");
}
