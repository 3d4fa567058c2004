# SPDX-License-Identifier: MIT
"""
Of the comparison: what the guard finds worse and when that is a failure, what a file of ratios
holds, how rows come from rounds, and values from an emulated machine's console, which measurements
are made together and at one distance, and when a build is as good as another.
"""
import contextlib
import io
import os
import tempfile
import unittest

import alternate
import compare
import figures
import programs
import steady
import wire_rxe

OURS, PEER = figures.ANYVERBS, figures.UCX
EVERYTHING = figures.EXPECTED + figures.EXPECTED_RXE
LATENCY = figures.at_most("write_lat", 8, 2.0, (PEER, "write_lat"))
BANDWIDTH = figures.at_least("write_bw", 65536, 0.85, (PEER, "write_bw"), (figures.CMA, "write_bw"))


def row(figure, *ratios):
    """The row of rounds with these ratios."""
    operation, size = figure.operation, figure.size
    rounds = [{(OURS, operation, size): ratio, (PEER, operation, size): 1.0} for ratio in ratios]
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
            compare.record(path, rows, "A Processor (R) 8 @ 2 GHz")
            ratios = {rows[0].name(): 1.25, rows[1].name(): 0.5}
            self.assertEqual(compare.read_recorded(path), (ratios, "A Processor (R) 8 @ 2 GHz"))

    def test_only_the_same_processor_is_judged(self):
        # recorded on, measured, is it a failure?
        for recorded_on, ratio, failure in (("this", 1.0, False), ("this", 2.0, True),
                                            ("another", 2.0, False), (None, 2.0, False)):
            with self.subTest(recorded_on=recorded_on, ratio=ratio), \
                    tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "recorded")
                compare.record(path, [row(LATENCY, 1.0)], recorded_on or "")
                if recorded_on is None:
                    self.forget_processor(path)
                said = io.StringIO()
                with contextlib.redirect_stdout(said):
                    self.assertEqual(compare.guard(path, [row(LATENCY, ratio)], "this"), failure)
                self.assertEqual("worse than recorded" in said.getvalue(), ratio > 1)

    @staticmethod
    def forget_processor(path):
        with open(path, encoding="ascii") as f:
            lines = [line for line in f if not line.startswith(compare.PROCESSOR)]
        with open(path, "w", encoding="ascii") as f:
            f.writelines(lines)

    def test_the_processor_has_a_name(self):
        self.assertTrue(programs.processor().strip())

    def test_what_was_not_measured_is_left_out(self):
        for ours, peer in ((0.0, 1.0), (1.0, 0.0), (float("inf"), 1.0), (1.0, float("inf")),
                           (None, 1.0), (1.0, None)):
            with self.subTest(ours=ours, peer=peer):
                values = {(OURS, "write_lat", 8): ours, (PEER, "write_lat", 8): peer}
                self.assertFalse(figures.Row(LATENCY, [values]).known())
                rounds = [values, {key: 2.0 for key in values}]
                self.assertEqual(figures.Row(LATENCY, rounds).ratios, [1.0])

    def test_names_differ(self):
        names = [figures.Row(figure, []).name() for figure in EVERYTHING]
        self.assertEqual(len(names), len(set(names)))
        self.assertFalse([name for name in names if len(name.split()) != 1])

    def test_the_file_in_the_repository_names_figures(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.txt")
        known = {figures.Row(figure, []).name() for figure in EVERYTHING}
        if not os.path.exists(path):
            self.skipTest("nothing is recorded")
        self.assertFalse(set(compare.read_recorded(path)[0]) - known)


class Rows(unittest.TestCase):
    def test_the_best_peer_counts(self):
        values = {(OURS, "write_bw", 65536): 8.0, (PEER, "write_bw", 65536): 10.0,
                  (figures.CMA, "write_bw", 65536): 2.0}
        self.assertEqual(figures.Row(BANDWIDTH, [values]).ratio(), 0.8)

    def test_a_round_without_a_peer_is_left_out(self):
        both = {(OURS, "write_lat", 8): 3.0, (PEER, "write_lat", 8): 2.0}
        self.assertEqual(figures.Row(LATENCY, [{(OURS, "write_lat", 8): 9.0}, both]).ratios, [1.5])
        self.assertFalse(figures.Row(LATENCY, [{(OURS, "write_lat", 8): 9.0}]).known())


class Steady(unittest.TestCase):
    # distances in turn, what comes of two measurements that count how often they were made
    ROWS = [
        ([1, 1.1, 1], [1, 2], True),
        ([1, 5, 5, 5, 5, 5], [3, 4], True),  # it moved at once, and stayed
        ([1, 1, 5, 1, 1, 1], [3, 4], True),
        ([1, 5, 1] * steady.TRIES, [2 * steady.TRIES - 1, 2 * steady.TRIES], False),
    ]

    def test_all_measurements_are_made_at_one_distance(self):
        for distances, results, known in self.ROWS:
            with self.subTest(distances=distances):
                made, turns = [], iter(distances)

                def measure():
                    made.append(None)
                    return len(made)

                found, distance = steady.together(lambda: next(turns), [measure, measure])
                self.assertEqual((found, distance is not None), (results, known))


class Alternate(unittest.TestCase):
    ROWS = [
        ("send_lat", 1.0, [0.9, 0.9, 1.2], "met"),
        ("send_lat", 1.0, [0.9, 1.01, 1.2], "even"),
        ("send_lat", 1.0, [1.01, 1.02, 1.03], "NOT"),
        ("send_bw", 1.0, [0.9, 1.1, 1.1], "met"),
        ("send_bw", 1.0, [0.9, 0.99, 1.2], "even"),
        ("send_rate", 0.85, [0.8], "NOT"),
    ]

    def test_a_bound_is_met_by_the_median(self):
        for operation, bound, ratios, verdict in self.ROWS:
            with self.subTest(operation=operation, ratios=ratios):
                case = alternate.Case((operation, 8), bound, None)
                self.assertEqual(alternate.verdict(case, ratios), verdict)

    def test_each_round_has_the_other_order(self):
        case = alternate.Case(("send_lat", 8), 1.0, None)
        for swapped in (False, True):
            asked = []

            def measured(build, asked=asked):
                asked.append(build)
                return {("send_lat", 8): {"A": 1.0, "B": 2.0}[build]}

            run = alternate.measure(case._replace(measure=measured), ["A", "B"], swapped, lambda: 1)
            self.assertEqual(run, (1.0, 2.0, 1.0))
            self.assertEqual(asked, ["B", "A"] if swapped else ["A", "B"])


class Groups(unittest.TestCase):
    FIGURES = [LATENCY, BANDWIDTH,
               figures.at_most("write_lat", 8, 3.0, (figures.LIMIT, "line_lat"))]
    OURS_LATENCY, PEERS_LATENCY = (OURS, "write_lat", 8), (PEER, "write_lat", 8)

    def test_a_figure_is_measured_with_all_its_peers(self):
        # sources that there are, groups
        rows = [({PEER, figures.LIMIT}, [[self.OURS_LATENCY, self.PEERS_LATENCY,
                                          (figures.LIMIT, "line_lat", 8)],
                                         [(OURS, "write_bw", 65536), (PEER, "write_bw", 65536)]]),
                ({figures.LIMIT}, [[self.OURS_LATENCY, (figures.LIMIT, "line_lat", 8)]]),
                (set(), [])]
        for sources, groups in rows:
            with self.subTest(sources=sources):
                self.assertEqual(compare.groups(self.FIGURES, sources), groups)

    def test_a_source_that_fails_is_named_and_has_no_value(self):
        def fail(operation, size):
            raise programs.Failed("%s of %d" % (operation, size))

        complaints = {}
        values = compare.one_round([LATENCY], {OURS: lambda o, s: {(o, s): 5.0}, PEER: fail},
                                   lambda: 1, complaints)
        self.assertEqual(values, {("write_lat", 8): {self.OURS_LATENCY: 5.0}})
        self.assertEqual(complaints, {PEER: "write_lat of 8"})

    def test_what_was_measured_at_several_distances_is_left_out(self):
        def measured(operation, size):
            return {(operation, size): 5.0}

        distances = iter([1, 5] * 100)
        self.assertEqual(compare.one_round([LATENCY], {OURS: measured, PEER: measured},
                                           lambda: next(distances), {}), {("write_lat", 8): {}})

    def test_a_ratio_is_of_values_that_were_measured_together(self):
        read = figures.at_least("read_bw", 65536, 1.0, (PEER, "write_bw"))
        line = iter([1.0, 8.0])  # the same peer's value, for either figure
        sources = {OURS: lambda o, s: {(o, s): 8.0}, PEER: lambda o, s: {(o, s): next(line)}}
        rounds = [compare.one_round([BANDWIDTH, read], sources, lambda: 1, {})]
        ratios = [row.ratio() for row in figures.rows([BANDWIDTH, read], rounds)]
        self.assertEqual(ratios, [8.0, 1.0])

    def test_every_source_can_measure_what_the_figures_need(self):
        for figure in [*EVERYTHING, *figures.every_size()]:
            for source, operation, size in figure.keys():
                if source == PEER:
                    self.assertIn(" -t " + programs.UCX_TEST[operation],
                                  programs.ucx_line(operation, size))


class Emulated(unittest.TestCase):
    TABLE = ("# a comment\n"
             "core | rxe-rxe any-any | 4 | clean | ib_send_lat -s 8 -n 1\n"
             "core | any-any | 4 | clean | ib_send_bw -s 64 -n 1 --report_gbits\n")
    ROWS = [(figures.RXE, "send_lat", 8), (OURS, "send_lat", 8), (OURS, "send_bw", 64)]
    CONSOLE = ("0 client| 8 1 1.0 9.0 4.0 5.0\n0 server| 8 1 1.0 9.0 7.0 5.0\n"
               "1 client| Completion with error at client\n@ 1 client 1\n"
               "2 client| 64 1 9.0 16.0 0.1\n")

    def test_rows_are_in_the_order_of_the_machine(self):
        self.assertEqual(list(wire_rxe.rows_of(self.TABLE)), self.ROWS)

    def test_what_the_clients_say_counts(self):
        self.assertEqual(list(wire_rxe.values(self.ROWS, self.CONSOLE).values()), [4.0, None, 2.0])

    def test_the_table_has_what_is_expected_of_both(self):
        with open(wire_rxe.TABLE, encoding="ascii") as table:
            rows = set(wire_rxe.rows_of(table.read()))
        expected = {(source, figure.operation, figure.size)
                    for figure in figures.EXPECTED_WIRE_RXE for source in (OURS, figures.RXE)}
        self.assertEqual(rows, expected)


class Connections(unittest.TestCase):
    NEWER = ("\tConnecting\n"
             "qp_conn               100\n"
             "step             avg/conn  total(us)    us/conn\n"
             "full connect         1190     119007          0\n"
             "create id               0         98          0\n"
             "cm_conn               100\n"
             "full connect          201      20153          0\n")

    def test_those_with_queue_pairs_count(self):
        self.assertEqual(programs.full_connect_us(self.NEWER), 1190)

    def test_no_table_is_a_failure(self):
        with self.assertRaises(programs.Failed):
            programs.full_connect_us("\tConnecting\n")


if __name__ == "__main__":
    unittest.main()
