#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles models that ship with the tree, looks at the libraries, and tries in a host process what a
# host may rely on: run.sh WEIR HOST SOURCE_ROOT
set -euo pipefail
weir=$1 host=$2 root=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

# MODEL:LIMIT, the largest size of its symbolic dims
models=(tests/data/mnist/mnist_cntk.onnx:1 tests/data/demo/ultraface_rfb_320.onnx:1
    tests/ir/01_gemm_gelu.ir:40 tests/ir/02_conv_blocked.ir:2 tests/ir/03_winograd.ir:2 tests/ir/04_depthwise_strip.ir:4
    tests/ir/05_attention_causal.ir:24 tests/ir/06_online_softmax.ir:24 tests/ir/07_decode_cache.ir:60
    tests/ir/08_lstm.ir:12 tests/ir/09_argmax_welford.ir:30 tests/ir/10_conv_int8.ir:2
    tests/ir/11_nonzero_gather.ir:16 tests/ir/12_reshape_symbols.ir:20 tests/ir/13_softmax_rows.ir:50
    tests/ir/14_graph_mlp.ir:64 tests/ir/15_loop_carry.ir:1 tests/ir/16_empty.ir:5)
libraries=()
for model in "${models[@]}"; do
    path=${model%:*} limit=${model##*:}
    so=$work/$(basename "${path%.*}").so
    "$weir" compile "$root/$path" -o "$so"
    libraries+=("$so:$limit")
    needed=$(LC_ALL=C readelf -d "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    if grep -vxE 'libc\.so\.6|libm\.so\.6' <<<"$needed" | grep -q .; then
        echo "FAIL $so needs $needed"
        exit 1
    fi
    exported=$(nm -D --defined-only "$so" | awk '{print $3}')
    [ "$exported" = weir_model_descriptor ] || { echo "FAIL $so exports $exported"; exit 1; }
done
"$host" "${libraries[@]}"
