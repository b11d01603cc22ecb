#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sides_ranges.ir on a GPU, at several sizes, its caches going on in buffers of their own and in one, each run three times:
the second is recorded, the third launched as recorded.

    sides.py SIDES_RANGES.so      # PYTHONPATH and WEIR_LIBRARY name the package and libweir.so
"""
import sys

import numpy as np
import weir
from tensors import OnDevice, context


def step(model, n, p, one):
    """`one`: a cache and what continues it lie in one buffer."""
    r = np.random.default_rng(n + p)
    x, a, c, row = ((r.random(dims, np.float32) - 0.5) for dims in ((3, 2000), (n,), (5, 48), (2, 8, 64)))
    caches = [r.random((8, p + 1, 64), np.float32) for _ in range(2)]
    news = [OnDevice(cache if one else np.zeros_like(cache)) for cache in caches]
    olds = [OnDevice(cache[:, :p], new if one else None) for cache, new in zip(caches, news)]
    given = [OnDevice(array) for array in (x, a, c)] + olds + [OnDevice(row)]
    b, y = OnDevice(np.zeros_like(a)), OnDevice(np.zeros((3, 96), np.float32))
    turned = np.concatenate([c + 1, 1 - c], 1).sum(0)
    for _ in range(3):
        model(*given, out=(b, *news, y))
        assert (b.get() == a * 2).all()
        assert np.allclose(y.get(), x.sum(1)[:, None] * turned, rtol=1e-4, atol=1e-3)
        for new, cache, last in zip(news, caches, (row[0], row[1] * np.float32(0.5))):
            assert (new.get()[:, :p] == cache[:, :p]).all() and (new.get()[:, p] == last).all()
    for thing in (*given, b, y, *news):
        thing.drop()


def main():
    with context():
        model = weir.open(sys.argv[1])
        for n, p, one in ((1, 1, False), (700, 5, False), (700, 5, True), (0, 30, True), (5000, 0, False)):
            step(model, n, p, one)
        model.close()
    print("fine")


if __name__ == "__main__":
    main()
