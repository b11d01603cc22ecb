#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the cases that make.py (graphs.py, networks.py) made, in both engines.

    tests/random/run.py DIR [--weir build/weir] [--only TEXT] [--form FORM] [-j N] [options of `weir test`]

A case that does not agree with its first judge is tried with the other's opinion. Prints a line per case that
agrees with none; the last line is "N passed, N failed, N skipped".
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = {"tight": ("1e-3", "1e-5"), "loose": ("2e-2", "2e-2"), "network": ("1e-3", "1e-4")}


def weir_test(folders, kind, options, more):
    """Results by the case's name."""
    if not folders:
        return {}
    rtol, atol = TOLERANCE[kind]
    found = {}
    for at in range(0, len(folders), 2000):
        with tempfile.TemporaryDirectory() as work:
            out = pathlib.Path(work, "found.json")
            subprocess.run([options.weir, "test", *folders[at:at + 2000], f"--engine={options.engine}", "-j", str(options.j), "--timeout=60",
                            f"--form={options.form}", f"--rtol={rtol}", f"--atol={atol}", f"--json={out}", *more],
                           stdout=subprocess.DEVNULL, check=False)
            found.update({case["name"]: case for case in json.loads(out.read_text(errors="replace"))})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--weir", default=str(ROOT / "build/weir"))
    parser.add_argument("--only", default="")
    parser.add_argument("--form", default="given")
    parser.add_argument("--engine", default="both")
    parser.add_argument("-j", type=int, default=2)
    options, more = parser.parse_known_args()
    passed, failed, skipped = 0, 0, 0
    for kind in TOLERANCE:
        folders = sorted(p for p in (options.dir / kind).glob("*") if options.only in p.name)
        found = weir_test(folders, kind, options, more)
        again = [p for name in found if found[name]["state"] != "PASS" and (p := options.dir / "other" / name).exists()]
        other = weir_test(again, kind, options, more)
        for name, case in found.items():
            good = case["state"] == "PASS" or other.get(name, case)["state"] == "PASS"
            passed, failed = passed + good, failed + (not good and case["state"] != "UNSUPPORTED")
            skipped += not good and case["state"] == "UNSUPPORTED"
            if not good:
                print(f"{'SKIP' if case['state'] == 'UNSUPPORTED' else 'FAIL'} {name}: {case['state']}: {case['reason']}"
                      + (" (the judges differ)" if name in other else ""))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
