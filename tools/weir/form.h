/* SPDX-License-Identifier: Apache-2.0 */
/* Another form of a case's model, which must give the same results. */
#ifndef WEIR_TOOLS_FORM_H
#define WEIR_TOOLS_FORM_H

#include <stdbool.h>
#include <stddef.h>

/* GIVEN: as the file says. SYMBOLIC: every dim of every input a symbol of its own (but
 * vectors of up to 8 elements, which may say how large a rank is), nothing said of other values'
 * sizes. CONSTANT: every input but the first tensor is an initializer, with the
 * values of the case's first data set. */
typedef enum { FORM_GIVEN, FORM_SYMBOLIC, FORM_CONSTANT } Form;

typedef struct FormedModel {
    char path[32]; /* as of a file, for this process and until form_drop */
    int file;
    unsigned char *fixed; /* by input of the model as given: an initializer now */
} FormedModel;

/* `set`: the data set's folder. False with a message in `error` (256 bytes). */
bool form_make(FormedModel *f, Form form, const char *model, const char *set, char *error);
void form_drop(FormedModel *f);
/* "given", "symbolic" or "constant"; false when `text` is none of them. */
bool form_named(const char *text, Form *form);

#endif
