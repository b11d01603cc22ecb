# SPDX-License-Identifier: Apache-2.0
"""Checks of what is launched, and when; part of check.py."""
import pathlib
import sys

import bench
from texts import HERE, ROOT, Skip, expect, run


class Launches:
    """Of `self.weir`, in the folder `self.work`, by the tests' driver."""

    def test_launches_side_by_side(self):
        try:
            import numpy as np
        except ImportError:
            raise Skip("there is no numpy for Python")
        for text in (HERE / "sides.ir").read_text(), (HERE / "sides_boxes.ir").read_text():
            name, source, *words = self.flow_of(text)
            log, out = self.work / f"{name}.launches", {}
            for target, more in ("cuda", (*words, "--gpu-copies", "engine")), ("c", bench.AS_ON_A_GPU):
                out[target] = self.work / f"{name}.{target}"
                code, text = run(self.weir, "run", source, *more, "--random", "1", "--output-dir", out[target],
                                 env={**self.fake, "WEIR_FAKE_LOG": str(log)})
                expect(code == 0, text)
            got, wanted = (np.load(out[t] / "y.npy").astype(np.float32) for t in ("cuda", "c"))
            expect(np.allclose(got, wanted, rtol=1e-3, atol=1e-3), f"{name}: {abs(got - wanted).max()}")
            blocks = [int(line.split()[1]) for line in log.read_text().splitlines()]
            one = blocks[-1]
            expect(blocks == [2 * one, one, one, one], log.read_text())

    def test_sides_that_differ(self):
        """All of a step's kernels that need nothing of each other are one launch, whether copies of caches are made or not; what
        differs too much, takes long or depends is not."""
        try:
            import numpy as np
        except ImportError:
            raise Skip("there is no numpy for Python")
        ranges, *others = (HERE / "sides_ranges.ir").read_text().split("\n\n")
        library, log, model = pathlib.Path(self.options.build).resolve() / "compiler/libweir.so", self.work / "ranges.launches", self.work / "ranges.so"
        self.compile(self.flow_of(ranges)[1], model)
        code, text = run(sys.executable, HERE / "sides.py", model,
                         env={**self.fake, "PYTHONPATH": str(ROOT / "tools/python"), "WEIR_LIBRARY": str(library), "WEIR_FAKE_LOG": str(log)})
        expect((code, text) == (0, "fine\n"), text)
        blocks = [int(line.split()[1]) for line in log.read_text().splitlines()]
        expect(blocks == 2 * [10, 8, 8, 2] + 2 * [12, 16, 16, 2] + 2 * [12, 2] + 2 * [9, 2] + 2 * [29, 2], log.read_text())
        for (name, source, *words), *size in [(self.flow_of(text), *size) for text in others for size in
                                              ([("--size", "N=5"), ("--size", "N=3000")] if "(N in" in text else [()])]:
            out = {}
            log.unlink()
            for target, more in ("cuda", words), ("c", ()):
                out[target] = self.work / f"{name}.{target}"
                code, text = run(self.weir, "run", source, *more, "--random", "1", *size, "--output-dir", out[target],
                                 env={**self.fake, "WEIR_FAKE_LOG": str(log)})
                expect(code == 0, text)
            for file in out["c"].glob("*.npy"):
                got, wanted = (np.load(folder / file.name) for folder in (out["cuda"], out["c"]))
                expect(np.allclose(got, wanted, rtol=1e-3, atol=1e-3), f"{name}, {file.name}: {abs(got - wanted).max()}")
            for file in out["c"].glob("*.pb"):
                expect(file.read_bytes() == (out["cuda"] / file.name).read_bytes(), f"{name}, {file.name} differs")
            expect(len(log.read_text().splitlines()) == 2, f"{name}: {log.read_text()}")

    def test_launches_may_begin_early(self):
        out, log = {}, self.work / "early"
        for early in ("0", "1"):
            log.unlink(missing_ok=True)
            out[early] = self.work / f"early.{early}"
            code, text = run(self.weir, "run", HERE / "calls.ir", "--target", "cuda", "--random", "2", "--output-dir", out[early],
                             env={**self.fake, "WEIR_CUDA_FOLLOW": early, "WEIR_FAKE_LOG": str(log)})
            expect(code == 0, text)
            lines = log.read_text().splitlines()
            expect(len(lines) > 60 and all(line.endswith(" early") == (early == "1") for line in lines), lines)
        for file in out["0"].iterdir():
            expect(file.read_bytes() == (out["1"] / file.name).read_bytes(), f"{file.name} differs")
