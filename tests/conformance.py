#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what "weir test" found with the record of what passed before.

    tests/conformance.py RESULTS.json --suite NAME [--record tests/results/conformance.txt] [--update]
    tests/conformance.py --self-test

RESULTS.json comes from "weir test --json". The record has a line "pass SUITE/CASE" or "fail SUITE/CASE" for
each case. A case that does not pass is a failure, unless the record says that it never did: then it
counts as skipped. Crashes and hangs are failures in any case. A case that passes though the record says
"fail" is named, so that the record can follow (--update rewrites the suite's lines; it never turns
"pass" into "fail" by itself: delete such a line by hand and say why in the commit message). The last
line is "N passed, N failed, N skipped".
"""
import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAD = """# Cases of the ONNX backend suites, compiled and in the evaluator, and whether they pass.
# Written by tools/check --update-conformance. A case that passed must go on passing; a case marked
# "fail" does not pass yet and counts as skipped.
"""


def read_record(text):
    """"SUITE/CASE" -> "pass" or "fail"."""
    return {name: state for state, name in
            (line.split() for line in text.split("\n") if line and not line.startswith("#"))}


def compare(results, record, suite):
    """(passed, failed, skipped, news): failed is a list of (case, why), news of names that pass by now."""
    passed, failed, skipped, news = 0, [], 0, []
    for case in results:
        name, state = f"{suite}/{case['name']}", case["state"]
        known = record.get(name)
        if state == "PASS":
            passed += 1
            if known == "fail":
                news.append(name)
        elif state in ("CRASH", "TIMEOUT") or known != "fail":
            before = "passed before" if known == "pass" else "not in the record" if known is None else "must not crash"
            failed.append((name, f"{state}: {case['reason']} ({before})"))
        else:
            skipped += 1
    return passed, failed, skipped, news


def why_skipped(case):
    """The reason without what belongs to the one case."""
    if case["state"] != "UNSUPPORTED":
        return "wrong so far: " + re.sub(r"^compiled: |^eval: ", "", case["reason"])[:90]
    operator = re.search(r'operator "(\w+)" of domain', case["reason"])
    return f"operator {operator[1]} is not supported" if operator else re.sub(r".*?\): ", "", case["reason"], 1)[:90]


def skipped_reasons(results, record, suite):
    """Reason -> names of the cases that count as skipped."""
    reasons = {}
    for case in results:
        if case["state"] in ("FAIL", "UNSUPPORTED") and record.get(f"{suite}/{case['name']}") == "fail":
            reasons.setdefault(why_skipped(case), []).append(case["name"])
    return reasons


def update(results, record, suite):
    """The record with the suite's cases as they are now; what passed stays so."""
    new = {name: state for name, state in record.items() if not name.startswith(suite + "/")}
    for case in results:
        name = f"{suite}/{case['name']}"
        new[name] = "pass" if case["state"] == "PASS" or record.get(name) == "pass" else "fail"
    return new


def write_record(record):
    return HEAD + "".join(f"{record[name]} {name}\n" for name in sorted(record))


def self_test():
    record = read_record(HEAD + "pass s/a\nfail s/b\npass s/c\nfail s/d\nfail s/g\npass t/a\n")
    results = [{"name": n, "state": s, "reason": ""} for n, s in
               (("a", "PASS"), ("b", "FAIL"), ("c", "FAIL"), ("d", "PASS"), ("e", "UNSUPPORTED"), ("g", "CRASH"))]
    passed, failed, skipped, news = compare(results, record, "s")
    assert (passed, skipped, news) == (2, 1, ["s/d"])
    assert [name for name, _ in failed] == ["s/c", "s/e", "s/g"]
    new = update(results, record, "s")
    assert new == {"s/a": "pass", "s/b": "fail", "s/c": "pass", "s/d": "pass", "s/e": "fail", "s/g": "fail",
                   "t/a": "pass"}
    assert read_record(write_record(new)) == new
    unknown = {"name": "b", "state": "UNSUPPORTED", "reason": 'compiled: error W012 at f, node "n" (Op): operator "Op" of '
               'domain "ai.onnx" is not supported: `weir ops` lists those that are'}
    assert skipped_reasons([unknown, results[2]], record, "s") == {"operator Op is not supported": ["b"]}
    print("5 passed, 0 failed, 0 skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="?", type=pathlib.Path)
    parser.add_argument("--suite", default="")
    parser.add_argument("--record", type=pathlib.Path, default=ROOT / "tests/results/conformance.txt")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    results = json.loads(args.results.read_text())
    record = read_record(args.record.read_text()) if args.record.exists() else {}
    if args.update:
        record = update(results, record, args.suite)
        args.record.parent.mkdir(parents=True, exist_ok=True)
        args.record.write_text(write_record(record))
    passed, failed, skipped, news = compare(results, record, args.suite)
    for name, why in failed:
        print(f"FAIL {name}: {why}")
    for why, names in sorted(skipped_reasons(results, record, args.suite).items(), key=lambda pair: -len(pair[1])):
        print(f"SKIP {len(names)} ({names[0]}{', ...' if len(names) > 1 else ''}): {why}")
    if news:
        print(f"{len(news)} cases pass that the record calls failing (--update-conformance): {' '.join(news[:8])}")
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
