#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzers that coverage guides, libFuzzer and AFL++, on the harnesses of this folder.

    tests/fuzz/guided.py [--seconds 60] [--fixed] [--with libfuzzer afl] [--only model text tensor index] [-j N]
                         [--weir build/weir] [--work build-fuzz/work] [--results FILE.md]
    tests/fuzz/guided.py --replay FILE...

Harnesses are built into build-fuzz (clang-19: AddressSanitizer and UBSan) and build-afl (afl-clang-fast).
Seeds are made of the official cases, the golden texts and what the compiler prints of them. What was found once
lies in findings/ (HARNESS-...), small, and is given to its harness first, as --replay does with other files.

Then a run explores: other inputs each time, and what it finds grows the corpus under --work, from which the next
one goes on. With --fixed it starts the same each time, on any machine: fixed seeds in a new folder beside --work,
FIXED executions, or as many of them as --seconds holds. An input that crashes, hangs or is refused for our
fault is kept in --work/findings. --results adds a table with executions and coverage. The last line is "N passed,
N failed, N skipped".
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = pathlib.Path("/usr/share/libonnx-testdata/data/node")
HARNESSES = ("model", "text", "tensor", "index")
SANITIZE = "address,undefined"
LARGEST = {"model": 4096, "text": 4096, "tensor": 2048, "index": 512}
TIMEOUT = 30  # seconds for one input
FOUND = ROOT / "tests/fuzz/findings"
# Executions of a run that is --fixed, those of the seeds among them: 60 s or more each on a free core, so that --seconds
# 60 beside it ends most of them.
FIXED = {"model": 30000, "text": 300000, "tensor": 3000000, "index": 3000000}
INDEXED = ("gather", "scatter", "slice", "onehot", "topk", "compress", "nonmaxsuppression", "tile", "pad", "roialign",
           "where", "nonzero", "unique", "range", "expand", "reshape", "cumsum", "trilu", "embed", "max_unpool", "resize",
           "reversesequence", "argmax", "maxunpool", "tensorscatter", "center_crop")
UNCOVERED = ROOT / "tests/fuzz/uncovered.txt"
BUILDS = {
    "libfuzzer": ("build-fuzz", "clang-19", f"-fsanitize=fuzzer-no-link,{SANITIZE} -fno-sanitize-recover=undefined -O1 -g1"
                  f" -fsanitize-coverage-ignorelist={UNCOVERED}", f"-fsanitize={SANITIZE}"),
    "afl": ("build-afl", "afl-clang-fast", "-O2 -g1", ""),
}


def environment(**more):
    env = dict(os.environ, AFL_QUIET="1", **more)
    env["ASAN_OPTIONS"] = "allocator_may_return_null=1:max_allocation_size_mb=2000:detect_leaks=0"
    env.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    return env


def build(engine, names, jobs):
    """The folder with the harnesses."""
    folder, compiler, flags, link = BUILDS[engine]
    folder = ROOT / folder
    env = environment(CC=compiler, CFLAGS=flags, LDFLAGS=link, AFL_LLVM_DENYLIST=str(UNCOVERED))
    folder.mkdir(exist_ok=True)
    log = folder / "build.log"
    with open(log, "w", encoding="utf-8") as out:
        for command in ([] if (folder / "build.ninja").exists() else
                        [["meson", "setup", folder, "-Dfuzzers=true", "-Dwerror=false", "-Dbuildtype=plain", "-Db_lundef=false"]]
                        ) + [["ninja", "-C", folder, f"-j{jobs}"] + [f"tests/fuzz_{name}" for name in names]]:
            if subprocess.run([str(word) for word in command], cwd=ROOT, env=env, stdout=out, stderr=out).returncode:
                sys.exit(f"the build of {folder} failed; the whole log is {log}")
    return folder


# ---- seeds -------------------------------------------------------------------------------------------------


def save(folder, name, data):
    (folder / name).write_bytes(data)


def model_seeds(folder, weir):
    del weir
    for path in sorted(CASES.glob("*/model.onnx")):
        if path.stat().st_size <= LARGEST["model"]:
            save(folder, path.parent.name, path.read_bytes())


def text_seeds(folder, weir):
    for path in sorted(ROOT.glob("tests/ir/*.ir")) + sorted(ROOT.glob("tests/cuda/*.ir")):
        parts = re.split(r"\n(?=(?:graph|flow|nest) )", path.read_text(encoding="utf-8"))
        for k, part in enumerate(parts):
            save(folder, f"{path.stem}.{k}", part.encode()[:LARGEST["text"]])
    for path in sorted(CASES.glob("*/model.onnx"))[::60]:
        for stage in ("infer", "clean", "vectorize"):
            done = subprocess.run([weir, "dump", path, "--after", stage], capture_output=True)
            if not done.returncode and len(done.stdout) <= LARGEST["text"]:
                save(folder, f"{path.parent.name}.{stage}", done.stdout)


def npy(dtype, shape, data):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


def tensor_seeds(folder, weir):
    del weir
    for dtype, size in (("<f4", 4), ("<i8", 8), ("|b1", 1), ("<c8", 8)):
        save(folder, f"npy{dtype[1:]}", b"\0" + npy(dtype, "(2, 3)", bytes(range(6 * size))))
    for k, path in enumerate(sorted(CASES.glob("*/test_data_set_0/*.pb"))):
        data = path.read_bytes()
        special = re.search("seq|optional|map|string|identity_opt|split_to", path.parts[-3])
        if len(data) < LARGEST["tensor"] and (special or k % 9 == 0):
            for form in range(1, 8) if special else (1,):
                save(folder, f"{path.parts[-3]}.{path.stem}.{form}", bytes([form]) + data)


def index_seeds(folder, weir):
    """Models to run stand beside the seeds, which are bytes at random."""
    del weir
    models = folder.parent / "models"
    models.mkdir(exist_ok=True)
    paths = [p for p in sorted(CASES.glob("*/model.onnx")) if any(w in p.parent.name for w in INDEXED)]
    for path in paths:
        if "expanded" not in path.parent.name:
            shutil.copy(path, models / f"{path.parent.name}.onnx")
    for path in ("11_nonzero_gather", "12_gather_bad_index", "07_decode_cache"):
        for found in ROOT.glob(f"tests/ir/{path}.ir"):
            shutil.copy(found, models)
    for k in range(64):
        save(folder, f"seed{k}", bytes((k * 7 + i * i * 31) % 256 for i in range(8 + 4 * k)))


def dictionary(path, weir):
    """Words of the grammars: of operators, and of the golden texts."""
    words = set(subprocess.run([weir, "ops"], capture_output=True, text=True).stdout.split())
    for text in ROOT.glob("tests/ir/*.ir"):
        words.update(re.findall(r"[a-z_]{2,}", text.read_text(encoding="utf-8")))
    words = sorted(w for w in words if re.fullmatch(r"[A-Za-z_.]{2,24}", w))
    path.write_text("".join(f'"{word}"\n' for word in words), encoding="utf-8")


def prepare(work, names, weir):
    work.mkdir(parents=True, exist_ok=True)
    (work / "findings").mkdir(exist_ok=True)
    if not (work / "words").exists():
        dictionary(work / "words", weir)
    for name in names:
        seeds = work / name / "seeds"
        if not seeds.exists():
            seeds.mkdir(parents=True)
            globals()[f"{name}_seeds"](seeds, weir)
            for path in FOUND.glob(f"{name}-*"):
                shutil.copy(path, seeds)
        (work / name / "corpus").mkdir(exist_ok=True)


# ---- runs --------------------------------------------------------------------------------------------------


def unmoved(fixed):
    """What lets a program lie at the same addresses in each run, where that may be asked for."""
    return ["setarch", "-R"] if fixed and not subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode else []


def libfuzzer(folder, work, name, seconds, fixed):
    """(executions, coverage, findings): what libFuzzer said."""
    found = work / "findings"
    before = set(found.glob(f"{name}-*"))
    command = [*unmoved(fixed), folder / f"tests/fuzz_{name}", f"-max_total_time={seconds}", f"-timeout={TIMEOUT}",
               f"-report_slow_units={TIMEOUT}", "-rss_limit_mb=4000", f"-max_len={LARGEST[name]}",
               f"-artifact_prefix={found}/{name}-", f"-dict={work / 'words'}", work / name / "corpus"]
    if fixed:  # a list of seeds has an order, a folder has none
        seeds = work / name / "seeds.list"
        seeds.write_text(",".join(str(path) for path in sorted((work / name / "seeds").iterdir())), encoding="utf-8")
        command += ["-seed=1", f"-runs={FIXED[name]}", "-reload=0", f"-seed_inputs=@{seeds}"]
    else:
        command += ["-fork=1", "-ignore_crashes=1", "-ignore_timeouts=1", "-ignore_ooms=1", work / name / "seeds"]
    done = subprocess.run([str(word) for word in command], env=environment(WEIR_FUZZ_MODELS=str(work / name / "models")),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds + 600)
    text = done.stdout.decode(errors="replace")
    (work / name / "libfuzzer.log").write_text(text, encoding="utf-8")
    states = re.findall(r"#(\d+)(?::|\s+\w+)\s+cov: (\d+) ft:", text)
    new = sorted(set(found.glob(f"{name}-*")) - before)
    return (int(states[-1][0]), f"{states[-1][1]} edges", new) if states else (0, "", new)


def afl(folder, work, name, seconds, fixed):
    out = work / name / "afl"
    seeds = work / name / "afl-seeds"
    if not seeds.exists():  # AFL++ wants few and small ones, and none that ends badly
        seeds.mkdir()
        small = sorted((work / name / "seeds").iterdir(), key=lambda path: (path.stat().st_size, path.name))
        for path in small[::max(1, len(small) // 100)]:
            shutil.copy(path, seeds)
    command = [*unmoved(fixed), "afl-fuzz", "-i", "-" if out.exists() else seeds, "-o", out, "-V", seconds,
               "-t", f"{TIMEOUT * 1000}+", "-m", "none", "-x", work / "words", *(["-s", 1, "-E", FIXED[name]] if fixed else []),
               "--", folder / f"tests/fuzz_{name}"]
    env = environment(WEIR_FUZZ_MODELS=str(work / name / "models"), AFL_NO_UI="1", AFL_SKIP_CPUFREQ="1", AFL_NO_AFFINITY="1",
                      AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES="1", AFL_SKIP_CRASHES="1", AFL_AUTORESUME="1")
    env.pop("ASAN_OPTIONS")
    done = subprocess.run([str(word) for word in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=seconds + 600)
    (work / name / "afl.log").write_bytes(done.stdout)
    stats = out / "default/fuzzer_stats"
    if not stats.exists():
        return 0, "", []
    values = dict(re.findall(r"(\w+)\s*: (.*)", stats.read_text(encoding="utf-8")))
    new = []
    for kind in ("crashes", "hangs"):
        for path in (out / "default" / kind).glob("id*"):
            new.append(pathlib.Path(shutil.copy(path, work / "findings" / f"{name}-afl-{kind}-{path.name[3:9]}")))
    return int(values.get("execs_done", 0)), f"{values.get('edges_found', '?')} edges, {values.get('bitmap_cvg', '?')}", new


ENGINES = {"libfuzzer": libfuzzer, "afl": afl}


def again(folder, work, path):
    """Gives a file of the findings to its harness once more."""
    name = path.name.split("-")[0]
    return subprocess.run([str(folder / f"tests/fuzz_{name}"), f"-timeout={TIMEOUT}", str(path)], capture_output=True, text=True,
                          env=environment(WEIR_FUZZ_MODELS=str(work / name / "models")), errors="replace")


def confirmed(folder, work, paths):
    """Those that are no hangs, or hang again: a busy machine stands still for a while."""
    out = []
    for path in paths:
        if re.search("timeout|hangs|slow-unit", path.name) and not again(folder, work, path).returncode:
            path.unlink()
        else:
            out.append(path)
    return out


def replay(files, work):
    """(passed, failed) of findings, given to their harnesses again."""
    failed = 0
    for path in files:
        done = again(ROOT / BUILDS["libfuzzer"][0], work, path)
        failed += done.returncode != 0
        if done.returncode:
            print(f"FAIL {path}:\n{done.stderr[-3000:]}")
    return len(files) - failed, failed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--fixed", action="store_true", help="the same executions each time, in a new folder")
    parser.add_argument("--with", dest="engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--only", nargs="+", choices=HARNESSES, default=list(HARNESSES))
    parser.add_argument("--weir", type=pathlib.Path, default=ROOT / "build/weir")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build-fuzz/work")
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--replay", type=pathlib.Path, nargs="+")
    parser.add_argument("-j", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if args.fixed:
        args.work = args.work.parent / "fixed"
        shutil.rmtree(args.work, ignore_errors=True)
    return args


def finish(passed, failed, skipped):
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


def main():
    args = arguments()
    if args.replay:
        finish(*replay(args.replay, args.work), 0)
    passed = failed = skipped = 0
    jobs = []
    for engine in args.engines:
        if not shutil.which(BUILDS[engine][1]):
            print(f"SKIP {engine}: there is no {BUILDS[engine][1]}")
            skipped += len(args.only)
            continue
        folder = build(engine, args.only, args.j)
        jobs += [(engine, folder, name) for name in args.only]
    prepare(args.work, args.only, args.weir)
    if any(engine == "libfuzzer" for engine, _, _ in jobs):
        passed, failed = replay([path for name in args.only for path in sorted(FOUND.glob(f"{name}-*"))], args.work)
    rows = []
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        running = [(job, pool.submit(ENGINES[job[0]], job[1], args.work, job[2], args.seconds, args.fixed)) for job in jobs]
        for (engine, folder, name), future in running:
            count, coverage, new = future.result()
            new = confirmed(folder, args.work, new)
            bad = bool(new) or not count
            passed, failed = passed + (not bad), failed + bad
            print(f"{'FAIL' if bad else 'ok  '} {name}, {engine}: {count} executions, {coverage}"
                  + "".join(f"; {path}" for path in new), flush=True)
            rows.append(f"| {name} | {engine} | {args.seconds} | {count} | {coverage} | {len(new)} |\n")
    if args.results:
        with open(args.results, "a", encoding="utf-8") as out:
            out.writelines(rows)
    finish(passed, failed, skipped)


if __name__ == "__main__":
    main()
