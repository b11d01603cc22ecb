/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a verb that crashes. */
#ifndef WEIR_TOOLS_GUARD_H
#define WEIR_TOOLS_GUARD_H

#include <sys/types.h>

#include "compiler/weir.h"
#include "tools/weir/args.h"

/* Runs a verb in a child process; its exit code, or EXIT_OURS after a message that asks for a
 * report.
 */
int guarded(int (*run)(Args *args), Args *args);
/* SIGINT and SIGTERM cancel what this context compiles, so that nothing is left behind; what does
 * not end within a second is ended. NULL: no context any more. */
void guard_cancels(weir_context *c);
/* Makes a folder for short-lived files, as long as the verb runs: what is left of it then goes,
 * however the verb ended. False with errno. */
bool guard_folder(char *path, size_t room);
/* Ends a child of a verb together with the verb, the process `parent` that it is a child of. */
void guard_child(pid_t parent);
/* Notes what is going on, for that message. */
void guard_step(const char *text);

#endif
