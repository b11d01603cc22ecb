# SPDX-License-Identifier: Apache-2.0
"""What the drivers of tests share: functions test_NAME are run one by one, a line for each that does not
pass, the sums last."""
import traceback


class Skip(Exception):
    """Cannot be tried here: its text says why."""


def tests_of(names):
    """{NAME: function} of a module's globals."""
    return {name[5:]: fn for name, fn in names.items() if name.startswith("test_")}


def run_tests(names, call):
    """Calls `call(name)` for each; true when one failed."""
    passed = failed = skipped = 0
    for name in names:
        try:
            call(name)
            passed += 1
        except Skip as reason:
            print(f"SKIP {name}: {reason}")
            skipped += 1
        except Exception as why:
            print(f"FAIL {name}: {type(why).__name__}: {why}\n{traceback.format_exc()}")
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0
