# SPDX-License-Identifier: MIT
"""
Runs one module of rdma-core's test suite, already unpacked, and writes one JSON line per test as it
ends: a crash loses only the tests behind it. Started by pyverbs.py, one process per module.

    pyverbs_run.py SUITE MODULE DEVICE RESULTS [TEST...]
"""
import json
import sys
import types
import unittest


class Recorder(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out
        self.outcome = None

    def write(self, record):
        self.out.write(json.dumps(record) + "\n")
        self.out.flush()

    def startTest(self, test):
        super().startTest(test)
        self.outcome = None
        self.write({"start": test.id()})

    def note(self, outcome, reason="", detail=""):
        """The first of several reports about one test counts,
        except that a failure outweighs everything."""
        if self.outcome is None or outcome == "fail":
            self.outcome = (outcome, reason, detail)

    def addSuccess(self, test):
        self.note("pass")

    def addSkip(self, test, reason):
        self.note("skip", reason)

    def failed(self, test, err):
        self.note("fail", "%s: %s" % (err[0].__name__, err[1]), self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        self.failed(test, err)

    def addError(self, test, err):
        self.failed(test, err)
        # A class or module that could not be set up: no stopTest() follows.
        if not hasattr(test, "_testMethodName"):
            self.stopTest(test)

    def addSubTest(self, test, subtest, err):
        if err:
            self.failed(test, err)

    def addExpectedFailure(self, test, err):
        self.note("pass")

    def addUnexpectedSuccess(self, test):
        self.note("fail", "unexpected success")

    def stopTest(self, test):
        outcome, reason, detail = self.outcome or ("fail", "ended without a result", "")
        self.write({"id": test.id(), "outcome": outcome, "reason": " ".join(reason.split()),
                    "detail": detail})


def load(suite, names, device):
    """The suite's own __init__ imports all its modules, vendors' too;
    an empty package in its place loads only one."""
    sys.path.insert(0, suite)
    package = types.ModuleType("tests")
    package.__path__ = [suite]
    sys.modules["tests"] = package
    from args_parser import parser  # the suite's own
    sys.argv[1:] = ["--dev", device]
    parser.parse_args()
    return unittest.defaultTestLoader.loadTestsFromNames("tests." + name for name in names)


def main():
    suite, module, device, results, *tests = sys.argv[1:]
    with open(results, "w", encoding="utf-8") as out:
        load(suite, tests or [module], device).run(Recorder(out))


main()
