#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All models, whole: every stage of the passes, and every optional pass left out.

    tests/models.py                    # every model that tests/bench/compare.py --list names
    tests/models.py resnet50 --without clean,fuse

First tests/run_stages --text: after each pass (and once more without each optional one) the model must
verify, print, parse and print as the same text. Then each model is compiled without each optional pass
alone and compared with ONNX Runtime at 1 and 2 threads (tests/bench/compare.py --check). Models come from
$WEIR_ZOO and $WEIR_MODELS, or ../shared; weights and references are kept in --work (several GB).
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPARE = ROOT / "tests/bench/compare.py"
ROW = re.compile(r'PASS\(\w+, "(\w+)", \w+, \w+, \w+, true,')


def optional_passes():
    names = ROW.findall((ROOT / "passes/passes.def").read_text())
    if not names:
        sys.exit("error: no optional pass found in passes/passes.def")
    return names


def stages(args, paths):
    """Texts of every stage; the number of models that fail."""
    run = subprocess.run([args.stages, "--text", "--skip-each", "-j", str(args.jobs), *paths],
                         capture_output=True, text=True)
    print(f"texts of all stages: {run.stdout.strip()}", flush=True)
    tail = re.search(r"(\d+) passed, (\d+) failed", run.stdout)
    return (int(tail[1]), int(tail[2])) if tail and run.returncode in (0, 1) else (0, len(paths))


def without(args, name):
    """Rows of all models without one pass that are right, and that are wrong."""
    command = [sys.executable, COMPARE, *args.models, "--check", "--threads", args.threads, "--option",
               f"skip={name}", "--work", args.work, "--weir", args.weir]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    lines = run.stdout.strip().split("\n")
    tail = re.match(r"(\d+) passed, (\d+) failed", lines[-1])
    for k, line in enumerate(lines[:-1]):
        if " FAIL " in line:
            reason = " ".join(lines[k + 1].split()) if k + 1 < len(lines) else ""
            print(f"FAIL without {name}: {' '.join(line.split()[:2])}: {reason}", flush=True)
    if not tail:
        print(f"FAIL without {name}: {run.stderr.strip()[-300:]}", flush=True)
        return 0, 1
    print(f"without {name}: {lines[-1]}", flush=True)
    return int(tail[1]), int(tail[2])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    p.add_argument("--without", type=lambda text: text.split(","), default=optional_passes())
    p.add_argument("--threads", default="1,2")
    p.add_argument("--weir", default=ROOT / "build/weir", type=pathlib.Path)
    p.add_argument("--stages", default=ROOT / "build/tests/run_stages", type=pathlib.Path)
    p.add_argument("--work", default=os.environ.get("WEIR_ZOO_WORK", ROOT / "build/zoo"), type=pathlib.Path)
    p.add_argument("-j", "--jobs", default=os.cpu_count(), type=int)
    args = p.parse_args()
    sys.path.insert(0, str(ROOT / "tests/bench"))
    import engines
    engines.use_packages()
    import workloads
    args.models = args.models or workloads.names()
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    paths = sorted({str(workloads.workload(name, args.work).path) for name in args.models})
    good, bad = stages(args, paths)
    for name in args.without:
        more, worse = without(args, name)
        good, bad = good + more, bad + worse
    print(f"{good} passed, {bad} failed, 0 skipped")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
