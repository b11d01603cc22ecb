/* SPDX-License-Identifier: Apache-2.0 */
/* What printer, parser and verifier of flows share. */
#ifndef WEIR_IR_FLOW_TEXT_H
#define WEIR_IR_FLOW_TEXT_H

#include "flow.h"
#include "lex.h"
#include "print.h"

/* The words of the grammar in the order of their enums, NULL at the end. */
extern const char *const cont_words[], *const storage_words[], *const line_words[];

void flow_print_marked(Printer *p, const Flow *flow);
void print_kernel(Printer *p, const Flow *flow, const Kernel *kernel);
void print_kernel_maps(Text *out, const Flow *flow,
                       const Kernel *kernel); /* "kernel k0 = mm act" */
/* The lines of a kernel that has its maps, from a scanner that stands on their brace; and are
 * things there that they name? If not: E_RECIPE at ctx->where's file. */
void flow_parse_lines(Flow *flow, Kernel *kernel, const Lex *at);
void flow_verify_lines(const Flow *flow, const Kernel *kernel);
/* "sum:f32", or the bare name of a combine that the flow's text defines. */
void text_combine(Text *out, const Combine *combine);

#endif
