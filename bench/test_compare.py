# SPDX-License-Identifier: MIT
"""Of the comparison: what the guard finds worse, what a file of ratios holds, and how rows come from rounds."""
import os
import tempfile
import unittest

import compare
import figures

OURS, PEER = figures.ANYVERBS, figures.UCX
LATENCY = figures.at_most("write_lat", 8, 2.0, (PEER, "write_lat"))
BANDWIDTH = figures.at_least("write_bw", 65536, 0.85, (PEER, "write_bw"), (figures.CMA, "write_bw"))


def row(figure, *ratios):
    """The row of rounds with these ratios."""
    rounds = [{(OURS, figure.operation, figure.size): ratio, (PEER, figure.operation, figure.size): 1.0}
              for ratio in ratios]
    return figures.Row(figure, rounds)


class Guard(unittest.TestCase):
    # figure, recorded, now, worse than WORSE allows?
    ROWS = [
        (LATENCY, 1.0, 1.0, False),
        (LATENCY, 1.0, 0.1, False),  # better
        (LATENCY, 1.0, compare.WORSE * 0.99, False),
        (LATENCY, 1.0, compare.WORSE * 1.01, True),
        (BANDWIDTH, 1.0, 1.0, False),
        (BANDWIDTH, 1.0, 10.0, False),
        (BANDWIDTH, 1.0, 1 / compare.WORSE * 1.01, False),
        (BANDWIDTH, 1.0, 1 / compare.WORSE * 0.99, True),
    ]

    def test_what_is_worse(self):
        for figure, before, now, worse in self.ROWS:
            with self.subTest(figure=figure.operation, before=before, now=now):
                measured = row(figure, now)
                found = list(compare.regressions([measured], {measured.name(): before}))
                self.assertEqual(bool(found), worse, found)

    def test_a_figure_that_was_not_recorded_is_not_judged(self):
        self.assertEqual(list(compare.regressions([row(LATENCY, 1000.0)], {"another": 1.0})), [])

    def test_the_median_of_the_rounds_is_judged(self):
        measured = row(LATENCY, 1.0, 1.0, 100.0)
        self.assertEqual(list(compare.regressions([measured], {measured.name(): 1.0})), [])

    def test_what_is_recorded_is_read_again(self):
        rows = [row(LATENCY, 1.25), row(BANDWIDTH, 0.5)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "recorded")
            compare.record(path, rows)
            self.assertEqual(compare.read_recorded(path), {rows[0].name(): 1.25, rows[1].name(): 0.5})

    def test_what_was_not_measured_is_left_out(self):
        for ours, peer in ((0.0, 1.0), (1.0, 0.0), (float("inf"), 1.0), (1.0, float("inf")), (None, 1.0), (1.0, None)):
            with self.subTest(ours=ours, peer=peer):
                values = {(OURS, "write_lat", 8): ours, (PEER, "write_lat", 8): peer}
                self.assertFalse(figures.Row(LATENCY, [values]).known())
                self.assertEqual(figures.Row(LATENCY, [values, {key: 2.0 for key in values}]).ratios, [1.0])

    def test_names_differ(self):
        names = [figures.Row(figure, []).name() for figure in figures.EXPECTED + figures.EXPECTED_RXE]
        self.assertEqual(len(names), len(set(names)))
        self.assertFalse([name for name in names if len(name.split()) != 1])

    def test_the_file_in_the_repository_names_figures(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.txt")
        known = {figures.Row(figure, []).name() for figure in figures.EXPECTED + figures.EXPECTED_RXE}
        if not os.path.exists(path):
            self.skipTest("nothing is recorded")
        self.assertFalse(set(compare.read_recorded(path)) - known)


class Rows(unittest.TestCase):
    def test_the_best_peer_counts(self):
        values = {(OURS, "write_bw", 65536): 8.0, (PEER, "write_bw", 65536): 10.0,
                  (figures.CMA, "write_bw", 65536): 2.0}
        self.assertEqual(figures.Row(BANDWIDTH, [values]).ratio(), 0.8)

    def test_a_round_without_a_peer_is_left_out(self):
        both = {(OURS, "write_lat", 8): 3.0, (PEER, "write_lat", 8): 2.0}
        self.assertEqual(figures.Row(LATENCY, [{(OURS, "write_lat", 8): 9.0}, both]).ratios, [1.5])
        self.assertFalse(figures.Row(LATENCY, [{(OURS, "write_lat", 8): 9.0}]).known())


class Measurements(unittest.TestCase):
    def test_what_the_figures_need_is_measured(self):
        class Recorder:
            """Instead of perftest."""

            @staticmethod
            def latency(kind, size):
                return kind + "_lat", size

            @staticmethod
            def bandwidth(kind, size):
                return kind + "_bw", size

        done = [measure() for measure in compare.measure_figures(Recorder, figures.EXPECTED_RXE)]
        self.assertEqual(done, [(figure.operation, figure.size) for figure in figures.EXPECTED_RXE])


if __name__ == "__main__":
    unittest.main()
