#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Refuses allocations, one after the other (WEIR_STARVE=N: each Nth): starve.sh STARVE SOURCE_ROOT
set -euo pipefail
starve=$1 root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
every=${WEIR_STARVE:-1}
for model in tests/ir/01_gemm_gelu.ir tests/ir/11_nonzero_gather.ir tests/data/mnist/mnist_cntk.onnx; do
    echo "$model"
    "$starve" "$root/$model" "$every" "$work"
done
