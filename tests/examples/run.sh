#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs an example as its reader would: run.sh embed|operators|demo WEIR PROGRAM SOURCE_ROOT
set -euo pipefail
example=$1 weir=$2 program=$3 data=$4/tests/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work

case $example in
embed)
    "$weir" compile "$data/mnist/mnist_cntk.onnx" -o "$work/mnist.so"
    said=$("$program" "$work/mnist.so")
    wanted='digit 1'
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
    ! "$weir" compile "$data/mnist/mnist_cntk.onnx" --operators "$data/README.md" -o "$work/m.so" 2>/dev/null
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
