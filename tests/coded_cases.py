# SPDX-License-Identifier: Apache-2.0
"""Cases of products by weights of few bits whose rows may become codes of 8 bits (contrib_cases.py makes them). These
rows are such codes already, so that processors that keep them in floats give the same."""
import numpy as np

cases = []


def case(function):
    cases.append(function)
    return function


@case
def coded_rows(m):
    for bits, size, rows in (4, 32, 9), (4, 16, 1), (8, 32, 3), (8, 128, 16), (2, 32, 2):
        k, n = 4 * size, 40
        x = m.i(-127, 128, rows, 1, k).astype(np.float32)
        x[..., ::size] = 127
        b = m.i(0, 256, n, 4, size * bits // 8, t=np.uint8)
        s = np.abs(m.f(n, 4, scale=0.1))
        shape = {"N": n, "K": k, "bits": bits, "block_size": size, "accuracy_level": 4}
        zero = m.i(0, 256, n, -(-4 * bits // 8), t=np.uint8)
        for name, z in ("", None), ("_zero", zero):
            yield f"matmul_nbits_coded_{bits}_{size}{name}", "MatMulNBits", [x, b, s, z], shape, {
                "constant": [1, 2, 3], "sizes": [[x[:1], b, s, z]]}
    half = [v.astype(np.float16) for v in (x, s, m.f(n))]
    yield "matmul_nbits_coded_half", "MatMulNBits", [half[0], b, half[1], None, None, half[2]], shape, {"constant": [1, 2, 5]}
