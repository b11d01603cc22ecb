#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what "weir test" found with the page that records what passed before, and how nearly.

    tests/conformance.py RESULTS.json --suite NAME [--as symbolic] [--record tests/results/conformance.md] [--update]
    tests/conformance.py --self-test

RESULTS.json comes from "weir test --json". The page has a table for each suite, a row for each case; `--as` says
which column the results belong to (one of the other forms and math modes), else they are those of the case
as it is. A case that does not pass is a failure, unless the page says that it never did: then it counts as
skipped. Crashes and hangs are failures in any case. A case that passes is a failure too when it is worse than
the page says: more than FACTOR times as far from what is expected. A case that passes though the page says "fail" is
named, so that the page can follow (--update writes what was found; it never turns "pass" into "fail" by
itself: do that by hand and say why in the commit message). The last line is "N passed, N failed, N skipped".
"""
import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MEASURES = ("ulp", "of largest")
FORMS = ("symbolic", "constant", "strict", "fast", "halves")
COLUMNS = ("result", *MEASURES, *FORMS)
# What the order of sums may change from one CPU to the next: (factor, units on top) by measure. Where a sum
# cancels, a unit of the small element says little, so that bound is wide.
FACTOR = {"ulp": (16, 1024), "of largest": (2, 4)}
HEAD = f"""# ONNX conformance

Official cases, compiled and in the evaluator. Written by `tools/check --update-conformance`; `tests/conformance.py`
compares each run with it. A case that passed must go on passing; one marked "fail" does not pass yet.

- `ulp`: the largest distance of an element from the expected one, in units in the last place of the output's type at
  that element, of all float outputs and of both engines. Where terms cancel, or 0 is expected, it is large and says little.
- `of largest`: the same distance in units in the last place of the output's largest magnitude.
- "equal": no floats, all equal. "by property": the model draws random numbers; shape, type and mean are as expected.
- A check fails when a case gets worse: `ulp` above {FACTOR["ulp"][0]} times the value here plus {FACTOR["ulp"][1]},
  `of largest` above {FACTOR["of largest"][0]} times plus {FACTOR["of largest"][1]}.
  CPUs sum in different orders; between AVX-512, AVX2 and SSE `of largest` differs by 4 at most, but for one case (97 and 67).
- `symbolic`: every dim a symbol. `constant`: every input but the first an initializer. Both in the evaluator.
- `strict`, `fast`: compiled with `--math=strict --verify-each`; with `--math=fast`; `halves`: with `--convert=f16`; within
  the bounds of these (`compiler/README.md`).

Cases of libonnx-testdata that no implementation of the text passes: `test_castlike_*BFLOAT16*` (the file of `like` holds
one u16, the model declares bf16[3,4]; that u16 stands for bf16 is accepted), `test_adam_multiple` (made with an epsilon of
0.01 that the model does not have), `test_dft_inverse` (0 within the rounding of f32 is expected to 1e-7; the newer release
expects 1.9e-7 in the same place). `test_gradient_*`: Gradient waits for training.
"""


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read_record(text):
    """Suite -> case -> column -> text, from the page."""
    record, rows, names = {}, None, None
    for line in text.split("\n"):
        if line.startswith("## "):
            rows, names = record.setdefault(line[3:], {}), None
        elif rows is not None and line.startswith("| "):
            if names is None:
                names = cells(line)
            else:
                case, *values = cells(line)
                rows[case] = {name: value for name, value in zip(names[1:], values) if value}
    return record


def table(names, rows):
    return "".join(f"| {' | '.join(row)} |\n" for row in [names, *rows]).replace("\n", "\n|" + "---|" * len(names) + "\n", 1)


def summary(record):
    """Of each suite: how many cases pass, in each form."""
    forms = ("result", *FORMS)
    counted = []
    for suite in sorted(record):
        cases = record[suite].values()
        passed = ["" if not any(form in case for case in cases) else
                  f"{sum(case.get(form) == 'pass' for case in cases)} of {sum(form in case for case in cases)}" for form in forms]
        counted.append([suite, *passed])
    return table(["suite", "passed", *FORMS], counted)


def write_record(record):
    text = HEAD + "\n" + summary(record)
    for suite in sorted(record):
        rows = record[suite]
        names = [name for name in COLUMNS if any(name in row for row in rows.values())]
        text += f"\n## {suite}\n\n" + table(["case", *names], [
            [case, *(rows[case].get(name, "") for name in names)] for case in sorted(rows)])
    return text


def measured(case):
    """What the row of a case that passed says of its distance."""
    if case["reason"] == "by property" or "ulp" not in case:
        return {"ulp": case["reason"] or "equal"}
    return {"ulp": f"{case['ulp']:.3g}", "of largest": f"{case['ulp_of_largest']:.3g}"}


def grown(now, before):
    """The measure that is beyond its factor, or None."""
    for name in MEASURES:
        factor, units = FACTOR[name]
        try:
            if float(now[name]) > factor * float(before[name]) + units:
                return name
        except (KeyError, ValueError):
            continue
    return None


def compare(results, rows, column):
    """(passed, failed, skipped, news): failed is a list of (case, why), news of names that pass by now."""
    passed, failed, skipped, news = 0, [], 0, []
    for case in results:
        name, state, row = case["name"], case["state"], rows.get(case["name"], {})
        known = row.get(column)
        if state == "PASS":
            now = measured(case)
            worse = grown(now, row) if column == "result" else None
            if worse:
                failed.append((name, f"{now[worse]} ulp ({worse}), {row[worse]} in the record"))
                continue
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


def skipped_reasons(results, rows, column):
    """Reason -> names of the cases that count as skipped."""
    reasons = {}
    for case in results:
        if case["state"] in ("FAIL", "UNSUPPORTED") and rows.get(case["name"], {}).get(column) == "fail":
            reasons.setdefault(why_skipped(case), []).append(case["name"])
    return reasons


def update(results, rows, column):
    """The suite's rows as the cases are now. What passed stays so, and a distance that hardly differs."""
    new = {} if column == "result" else {name: dict(row) for name, row in rows.items()}
    for case in results:
        name = case["name"]
        before = rows.get(name, {})
        row = new.setdefault(name, dict(before))
        row[column] = "pass" if case["state"] == "PASS" or before.get(column) == "pass" else "fail"
        if column != "result" or case["state"] != "PASS":
            continue
        now = measured(case)
        if set(now) != set(before) & set(MEASURES) or len(now) == 1 or grown(now, before) or grown(before, now):
            row = new[name] = {key: value for key, value in row.items() if key not in MEASURES}
            row.update(now)
    return new


def self_test():
    case = lambda name, state, **more: {"name": name, "state": state, "reason": "", **more}
    rows = {"a": {"result": "pass", "ulp": "100", "of largest": "1"}, "b": {"result": "fail"}, "c": {"result": "pass"},
            "d": {"result": "fail", "symbolic": "pass"}, "g": {"result": "fail"}}
    record = {"s": rows, "t": {"a": {"result": "pass"}}}
    assert read_record(write_record(record)) == record
    results = [case("a", "PASS", ulp=900, ulp_of_largest=5), case("b", "FAIL"), case("c", "FAIL"),
               case("d", "PASS", ulp=2, ulp_of_largest=0.5), case("e", "UNSUPPORTED"), case("g", "CRASH")]
    passed, failed, skipped, news = compare(results, rows, "result")
    assert (passed, skipped, news) == (2, 1, ["d"])
    assert [name for name, _ in failed] == ["c", "e", "g"]
    for far in ({"ulp": 100, "ulp_of_largest": 6.5}, {"ulp": 2700, "ulp_of_largest": 1}):
        assert [name for name, _ in compare([case("a", "PASS", **far)], rows, "result")[1]] == ["a"]
        assert compare([case("a", "PASS", **far)], rows, "symbolic")[0] == 1
    new = update(results, rows, "result")
    assert {name: row["result"] for name, row in new.items()} == {
        "a": "pass", "b": "fail", "c": "pass", "d": "pass", "e": "fail", "g": "fail"}
    assert new["a"]["ulp"] == "100" and new["d"] == {"result": "pass", "ulp": "2", "of largest": "0.5", "symbolic": "pass"}
    assert update([case("c", "PASS", ulp=1, ulp_of_largest=1)], rows, "fast")["c"] == {"result": "pass", "fast": "pass"}
    unknown = {"name": "b", "state": "UNSUPPORTED", "reason": 'compiled: error W012 at f, node "n" (Op): operator "Op" of '
               'domain "ai.onnx" is not supported: `weir ops` lists those that are'}
    assert skipped_reasons([unknown, results[2]], rows, "result") == {"operator Op is not supported": ["b"]}
    print("11 passed, 0 failed, 0 skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="?", type=pathlib.Path)
    parser.add_argument("--suite", default="")
    parser.add_argument("--as", dest="column", default="result", choices=FORMS)
    parser.add_argument("--record", type=pathlib.Path, default=ROOT / "tests/results/conformance.md")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    results = json.loads(args.results.read_text())
    record = read_record(args.record.read_text()) if args.record.exists() else {}
    rows = record.get(args.suite, {})
    if args.update:
        rows = record[args.suite] = update(results, rows, args.column)
        args.record.parent.mkdir(parents=True, exist_ok=True)
        args.record.write_text(write_record(record))
    passed, failed, skipped, news = compare(results, rows, args.column)
    for name, why in failed:
        print(f"FAIL {args.suite}/{name}: {why}")
    for why, names in sorted(skipped_reasons(results, rows, args.column).items(), key=lambda pair: -len(pair[1])):
        print(f"SKIP {len(names)} ({names[0]}{', ...' if len(names) > 1 else ''}): {why}")
    if news:
        print(f"{len(news)} cases pass that the record calls failing (--update-conformance): {' '.join(news[:8])}")
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
