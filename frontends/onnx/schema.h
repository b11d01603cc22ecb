/* SPDX-License-Identifier: Apache-2.0 */
/* Operands, results and attributes of a node against what the standard says of its operator. */
#ifndef WEIR_FRONTENDS_ONNX_SCHEMA_H
#define WEIR_FRONTENDS_ONNX_SCHEMA_H

#include "onnx.h"

/* E_MODEL, E_TYPE or E_ATTRIBUTE. Once the operands' types are inferred. */
void schema_check(const Infer *in);

#endif
