/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of protobuf files share. */
#ifndef WEIR_TOOLS_PB_H
#define WEIR_TOOLS_PB_H

#include <stddef.h>

#include "ir/dtype.h"
#include "tools/weir/tensors.h"

/* A TensorProto (pb.c); a SequenceProto, OptionalProto or MapProto, as the type's text says
 * (pb_value.c). False with a message in `error` (256 bytes). */
bool pb_tensor(HostTensor *h, const uint8_t *at, size_t n, char *error);
bool pb_value(HostTensor *h, const uint8_t *at, size_t n, const char *type, char *error);

#endif
