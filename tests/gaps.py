#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the standard has and `weir ops` does not list: operators, versions, types of operand 0.

    tests/gaps.py [WEIR]       (build/weir; needs onnx from PyPI)

Says nothing of a row whose types are the schema's own. Exits with 1 when an operator is missing."""
import collections
import pathlib
import subprocess
import sys

from onnx import defs

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tools"))
from schemas import type_names  # noqa: E402

FLOATS = {"f16", "f32", "f64", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "f6e2m3", "f6e3m2"}
WORDS = {"float": FLOATS, "complex": {"c64", "c128"}}


def rows(weir):
    """{(domain, operator): [(first version, last, types)]} of what is compiled."""
    found = collections.defaultdict(list)
    for line in subprocess.run([weir, "ops"], capture_output=True, text=True, check=True).stdout.splitlines():
        domain, name, versions, *types = line.split()
        first, _, last = versions.replace("+", "-1000").partition("-")
        known = set().union(*(WORDS.get(t, {t}) for t in types)) if types else set()
        found["" if domain == "ai.onnx" else domain, name].append((int(first), int(last or first), known))
    return found


def wanted(schema):
    """The types of operand 0 that the schema names."""
    if not schema.inputs:
        return set()
    operand = schema.inputs[0].type_str
    for constraint in schema.type_constraints:
        if constraint.type_param_str == operand:
            return type_names(constraint.allowed_type_strs)
    return type_names([operand])


def main():
    found, missing = rows(sys.argv[1] if len(sys.argv) > 1 else "build/weir"), 0
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version)):
        if schema.deprecated:
            continue
        title = f"{schema.domain or 'ai.onnx'} {schema.name} {schema.since_version}"
        fits = [t for first, last, t in found[schema.domain, schema.name] if first <= schema.since_version <= last]
        if not fits:
            print(f"{title}: not there")
            missing += 1
        lacks = wanted(schema) - fits[0] if fits and fits[0] else set()
        if schema.since_version < 25:
            lacks -= {"i2", "u2"}
        if lacks:
            print(f"{title}: {' '.join(sorted(lacks))}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
