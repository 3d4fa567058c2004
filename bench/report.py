# SPDX-License-Identifier: MIT
"""What was measured, for people: tables on a terminal, and a picture per figure (gnuplot, SVG)."""
import os
import subprocess
import tempfile
import time
from statistics import median

import figures
import programs

UNIT = {"lat": "us", "bw": "GB/s", "rate": "M/s"}


def size_text(size):
    if not size:
        return ""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return "%d %s" % (size // unit, name)
    return "%d B" % size


def number(value):
    return "%.3g" % value if value < 100 else "%.0f" % value


def unit(operation):
    return UNIT[operation.rsplit("_", 1)[1]]


def peers_text(figure):
    """Whose value it is, and of what, unless that is clear."""
    def text(source, operation):
        if source == figures.LIMIT:
            return operation
        return source if operation == figure.operation else "%s %s" % (source, operation)
    return " or ".join(text(*peer) for peer in figure.peers)


def bound_text(figure):
    return "<= %g" % figure.most if figure.most is not None else ">= %g" % figure.least


def print_rows(title, rows):
    if not rows:
        return
    print("\n%s" % title)
    print("%-10s %7s %11s %13s %6s %6s %-11s %s" %
          ("FIGURE", "SIZE", "ANYVERBS", "PEER", "RATIO", "SPREAD", "EXPECTED", "AGAINST"))
    for row in rows:
        figure = row.figure
        print("%-10s %7s %11s %13s %6s %5.0f%% %-7s %-3s %s" %
              (figure.operation, size_text(figure.size),
               "%s %s" % (number(median(row.ours)), unit(figure.operation)),
               "%s %s" % (number(median(row.theirs)), unit(figure.operation)),
               number(row.ratio()), 100 * row.spread(), bound_text(figure),
               "met" if row.met() else "NOT", peers_text(figure)))
    print("%d of %d met" % (sum(row.met() for row in rows), len(rows)))


def over_verdict(operation, bound, ratio):
    if bound is None:
        return ""
    falls = figures.falls(operation)
    return "%s %g %s" % ("<=" if falls else ">=", bound,
                         "met" if (ratio <= bound if falls else ratio >= bound) else "NOT")


def print_over(found):
    """@found: as compare.over_round() fills it."""
    print("\n%s beside their own shared memory; behind each run's two values the distance of the "
          "two cores in it, in ns" % figures.OVER)
    print("%-10s %7s %10s %10s %6s %-11s %s" %
          ("FIGURE", "SIZE", "OVER", "OWN", "RATIO", "EXPECTED", "EACH"))
    for operation, size, bound in figures.OVER_SIZES:
        runs = found.get((operation, size))
        if not runs:
            continue
        ratio = median(over / own for over, own, _ in runs)
        print("%-10s %7s %10s %10s %6.2f %-11s %s" %
              (operation, size_text(size),
               *("%s %s" % (number(median(run[i] for run in runs)), unit(operation))
                 for i in (0, 1)), ratio, over_verdict(operation, bound, ratio),
               " ".join("%s:%s/%s" % (number(over), number(own),
                                      "?" if d is None else "%.0f" % (1000 * d))
                        for over, own, d in runs)))


# --- pictures ---

PICTURES = {
    "send_lat": [(figures.ANYVERBS, "send_lat"), (figures.UCX, "send_lat"),
                 (figures.FABRIC, "send_lat")],
    "write_lat": [(figures.ANYVERBS, "write_lat"), (figures.UCX, "write_lat"),
                  (figures.CMA, "write_lat"), (figures.LIMIT, "vm_lat")],
    "read_lat": [(figures.ANYVERBS, "read_lat"), (figures.UCX, "read_lat")],
    "send_bw": [(figures.ANYVERBS, "send_bw"), (figures.UCX, "send_bw"),
                (figures.LIMIT, "memcpy_bw")],
    "write_bw": [(figures.ANYVERBS, "write_bw"), (figures.UCX, "write_bw"),
                 (figures.CMA, "write_bw"), (figures.LIMIT, "memcpy_bw"), (figures.LIMIT, "vm_bw")],
    "read_bw": [(figures.ANYVERBS, "read_bw"), (figures.UCX, "read_bw"),
                (figures.LIMIT, "memcpy_bw")],
}

TITLES = {"send": "SEND", "write": "RDMA WRITE", "read": "RDMA READ",
          "lat": "latency", "bw": "bandwidth"}
AXES = {"lat": "microseconds, one way", "bw": "GB/s"}

SCRIPT = """
set terminal svg size 800,500 background '#ffffff'
set output '%(output)s'
set title "%(title)s" noenhanced
set logscale xy
set format x "%%.0b %%BB"
set xlabel 'bytes in a message'
set ylabel '%(unit)s'
set key left top
set grid
set xtics 2, 16
plot %(plots)s
"""


def points(measured, source, operation):
    """@measured: values by (source, operation, size), each key in any number of them"""
    wanted = (source, operation)
    for size in sorted({key[2] for values in measured for key in values if key[:2] == wanted}):
        key = (*wanted, size)
        yield size, median(values[key] for values in measured if key in values)


def title_of(name):
    """In words, and where and when: what it says of other machines is little."""
    operation, what = name.split("_")
    return "%s, %s\\n%s, %s" % (TITLES[operation], TITLES[what],
                               programs.processor().replace("'", ""), time.strftime("%Y-%m-%d"))


def draw(folder, name, lines, measured):
    with tempfile.TemporaryDirectory() as scratch:
        plots = []
        for index, (source, operation) in enumerate(lines):
            path = os.path.join(scratch, "%d.dat" % index)
            with open(path, "w", encoding="ascii") as f:
                data = list(points(measured, source, operation))
                f.writelines("%d %g\n" % point for point in data)
            if data:
                title = source if operation == name else "%s %s" % (source, operation.split("_")[0])
                plots.append("'%s' with linespoints linewidth 2 title '%s'" % (path, title))
        if not plots:
            return
        text = SCRIPT % {"output": os.path.join(folder, name + ".svg"),
                         "title": title_of(name), "unit": AXES[name.split("_")[1]],
                         "plots": ", ".join(plots)}
        subprocess.run(["gnuplot"], input=text, text=True, check=True)


def draw_all(folder, measured):
    os.makedirs(folder, exist_ok=True)
    for name, lines in PICTURES.items():
        draw(folder, name, lines, measured)
    print("pictures: %s/*.svg" % folder)
