/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a verb that crashes. */
#ifndef WEIR_TOOLS_GUARD_H
#define WEIR_TOOLS_GUARD_H

#include "tools/weir/args.h"

/* Runs a verb in a child process; its exit code, or EXIT_OURS after a message that asks for a
 * report.
 */
int guarded(int (*run)(Args *args), Args *args);
/* Notes what is going on, for that message. */
void guard_step(const char *text);

#endif
