#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs an example as its reader would: run.sh EXAMPLE WEIR PROGRAM SOURCE_ROOT
set -euo pipefail
example=$1 weir=$2 program=$3 data=$4/tests/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work

mnist=$data/mnist/mnist_cntk.onnx

case $example in
embed)
    "$weir" compile "$mnist" -o "$work/mnist.so"
    said=$("$program" "$work/mnist.so")
    wanted='digit 1'
    ;;
embed_cpp)
    command -v c++ >/dev/null || { echo "SKIP there is no C++ compiler"; exit 77; }
    "$weir" compile "$mnist" -o "$work/mnist.so"
    c++ -std=c++17 -Wall -Wextra -Werror -I "$4" "$program" -o "$work/embed" -ldl
    said=$("$work/embed" "$work/mnist.so")
    ! "$work/embed" "$work/none.so" 2>/dev/null
    wanted='digit 1'
    ;;
typed)
    "$weir" compile "$mnist" -o "$work/mnist.so" --name mnist --emit header --emit-dir "$work/h"
    (cd "$work" && cc -Wall -Wextra -Werror "$program" -I h ./mnist.so -o typed)
    said=$(cd "$work" && ./typed)
    wanted='digit 1'
    ;;
plain)
    python3 -c 'import numpy' 2>/dev/null || { echo "SKIP there is no NumPy for Python"; exit 77; }
    "$weir" compile "$mnist" -o "$work/mnist.so"
    said=$(python3 "$program" "$work/mnist.so")
    wanted='digit 1'
    ;;
memory)
    said=$("$program" "$mnist")
    wanted='digit 1'
    ! "$program" "$data/README.md" 2>/dev/null
    ;;
swap)
    said=$("$program" "$mnist")
    wanted='digit 1, then digit 7; no other result in between'
    ;;
pool | threads)
    "$weir" compile "$mnist" -o "$work/mnist.so"
    "$weir" compile "$data/demo/ultraface_rfb_320.onnx" -o "$work/ultraface.so"
    said=$("$program" "$work/mnist.so" "$work/ultraface.so")
    wanted='3 runs of 2 models on 2 threads\|2 models share a pool of 2 threads'
    ;;
diagnostics)
    said=$("$program" "$mnist")
    wanted='3 errors; then a model in several steps'
    [ "$(grep -c '^error W0' <<<"$said")" = 3 ]
    ;;
operators)
    model=$data/operators/acme.onnx own="--operators $data/operators/acme.ir"
    said=$("$program" "$model")
    wanted='norms 0.5000 1.1379, medians 0.0000 0.6026'
    ! "$weir" compile "$model" -o "$work/m.so" 2>/dev/null
    ! "$weir" compile "$model" $own -o "$work/m.so" 2>/dev/null
    cc -c -fPIC -I "$4" "$4/tests/examples/median.c" -o "$work/median.o"
    "$weir" compile "$model" $own --link "$work/median.o" -o "$work/m.so"
    "$weir" run "$work/m.so" --random 1 --size i=7 >"$work/library"
    "$weir" run "$model" $own --link "$work/median.o" --random 1 --size i=7 | diff - "$work/library"
    ! "$weir" compile "$mnist" --operators "$data/README.md" -o "$work/m.so" 2>/dev/null
    ;;
plugin)
    cc -shared -fPIC -I "$4" "$program" -o "$work/plugin.so"
    "$weir" dump "$mnist" --after clean --pass-plugin "$work/plugin.so:after clean" >"$work/flow"
    "$weir" compile "$mnist" --pass-plugin "$work/plugin.so" -o "$work/m.so"
    "$weir" verify "$work/m.so" "$mnist" --pass-plugin "$work/plugin.so"
    ! "$weir" verify "$work/m.so" "$mnist"
    "$weir" check "$mnist" --pass-plugin "$work/plugin.so"
    said=$(grep -o 'min(max(t0, 0.0), 0x1.8p+2)' "$work/flow" | sort | uniq -c | xargs)
    wanted='2 min(max(t0, 0.0), 0x1.8p+2)'
    ;;
demo)
    "$weir" compile "$data/demo/ultraface_rfb_320.onnx" -o "$work/ultraface.so"
    said=$("$program" "$work/ultraface.so" "$data/demo/astronaut_320x240.png" "$work/face.png" | grep '^face')
    wanted='face 1: score 0.9999[0-9], x 112.3-170.7, y 37.9-111.5'
    head -c 8 "$work/face.png" | cmp - <(printf '\x89PNG\r\n\x1a\n')
    ! cmp -s "$work/face.png" "$data/demo/astronaut_320x240.png"
    ;;
esac
echo "$said"
grep -qx "$wanted" <<<"$said" || { echo "expected: $wanted"; exit 1; }
