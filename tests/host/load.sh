#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Eight models under load: load.sh WEIR LOAD SOURCE_ROOT SECONDS THREADS[xPOOL]; on a quiet machine with WEIR_TIMED=1
# for the speed too, and with WEIR_RESULTS=FOLDER a dated table goes there
# The same as C sources under ThreadSanitizer, runtime and all: load.sh --races WEIR SOURCE_ROOT SECONDS THREADS[xPOOL]
set -euo pipefail
races=no
[ "$1" != --races ] || { races=yes && shift; }
weir=$1
shift
[ $races = yes ] || { load=$1 && shift; }
root=$1 seconds=$2 threads=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

models=(tests/data/mnist/mnist_cntk.onnx:1 tests/ir/01_gemm_gelu.ir:40 tests/ir/05_attention_causal.ir:24
    tests/ir/06_online_softmax.ir:24 tests/ir/08_lstm.ir:12 tests/ir/09_argmax_welford.ir:30 tests/ir/11_nonzero_gather.ir:16
    tests/ir/13_softmax_rows.ir:50)
libraries=()
for model in "${models[@]}"; do
    path=$root/${model%:*}
    so=$work/$(basename "${path%.*}").so
    if [ $races = yes ]; then
        folder=${so%.so}
        "$weir" compile "$path" --cpu x86-64-v2 --emit c --emit-dir "$folder"
        rm "$folder/main.c"
        (cd "$folder" && cc -fsanitize=thread -O1 -g -w -msse4.2 -Wno-psabi -ffp-contract=off -fwrapv -fno-strict-aliasing -fPIC -shared ./*.c -lm -o "$so")
        find "$folder" -name '*.weights' -exec cp {} "$work" \;
    else
        "$weir" compile "$path" -o "$so"
    fi
    libraries+=("$so:${model##*:}")
done
if [ $races = yes ]; then
    load=$work/load
    cc -fsanitize=thread -O1 -g -D_GNU_SOURCE -I "$root" "$root/tests/host/load.c" "$root/tests/host/host.c" -o "$load" -ldl -lpthread
    export TSAN_OPTIONS=halt_on_error=1:exitcode=66
fi
if [ -z "${WEIR_RESULTS:-}" ]; then
    "$load" "$seconds" "$threads" "${libraries[@]}"
    exit
fi
code=0
"$load" "$seconds" "$threads" "${libraries[@]}" | tee "$work/said" || code=$?
table=$WEIR_RESULTS/load-$(date -u +%Y-%m-%d).md
{
    echo "# Load of $(date -u +%Y-%m-%d)"
    echo
    echo "${#models[@]} models, sizes at random, $((seconds / 2)) s for each row; tests/host/load.sh ... $seconds $threads on"
    echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) CPUs. Throughput in multiples of one thread alone; how long"
    echo "runs take in multiples of what each took alone; memory since two fifths of the time."
    echo
    echo '| threads | runs | wrong | throughput | median | 99 of 100 | memory grew by |'
    echo '|---|---|---|---|---|---|---|'
    sed -nE 's/^ *([0-9]+) threads: ([0-9]+) runs, ([0-9]+) wrong, ([0-9.]+) times .* takes ([0-9.]+) times .* \(median\), ([0-9.]+) .* by (-?[0-9]+) bytes$/| \1 | \2 | \3 | \4 | \5 | \6 | \7 B |/p' "$work/said"
    echo
    [ $code = 0 ] && echo 'All that is demanded held.' || echo 'Not all that is demanded held (tests/host/load.c).'
} >"$table"
echo "wrote $table"
exit $code
