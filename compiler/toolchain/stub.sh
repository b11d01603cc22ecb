#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A library with the names of another and nothing behind them, to link against where that one is not.
#
#     stub.sh GCC libc.so.6 OUT
set -e
$($1 -print-prog-name=nm) -D --defined-only "$($1 -print-file-name="$2")" |
    awk '$2 ~ /[TWiDBRV]/ { sub(/@.*/, "", $3); if (!seen[$3]++) print ".globl " $3 "\n" $3 ":" }' |
    $1 -shared -nostdlib -Wl,-soname,"$2" -Wl,--build-id=none -x assembler - -o "$3"
