/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of operator families. */
#include "ops.h"

static const OpRow *const families[] = {
    onnx_elementwise_rows,
};

const OpTable *onnx_ops(void)
{
    static const OpTable table = {families, sizeof families / sizeof *families};
    return &table;
}
