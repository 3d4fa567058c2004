# SPDX-License-Identifier: MIT
"""
What is compared with what, and what is expected of it: tables, and how a row is worked out.

A value's key is (source, operation, size); see programs.py for operations and units. Ratios are
taken within one round, whose runs follow each other closely, and the median of the rounds' ratios
is what counts.
"""
from collections import namedtuple
from statistics import median

ANYVERBS, UCX, CMA, FABRIC, LIMIT, RXE, OVER = (
    "anyverbs", "UCX", "UCX cma", "libfabric", "machine", "rdma_rxe", "others over anyverbs")
UDP, UCX_TCP, FABRIC_TCP = "UDP", "UCX tcp", "libfabric tcp"  # between two hosts
OURS = (ANYVERBS, LIMIT, OVER, UDP)  # whose failure is ours

SIZES = [2, 8, 64, 512, 4096, 16384, 65536, 262144, 1 << 20, 8 << 20]
SIZES_OF = {CMA: [8, 4096, 65536, 1 << 20]}
PACKET = 4096 + 28  # with the headers of most
SMALL_PACKET = 1024 + 28  # where the cable takes 1500 bytes
SIZE_OF = {"line_lat": 8, "udp_lat": 8, "udp_acked_lat": 8, "udp_bw": PACKET, "udp_icrc_bw": PACKET}
RATE_DEPTH = 128
CONNECT, NO_SIZE = "connect_lat", 0  # of librdmacm
# UCX, Open MPI and libfabric over anyverbs, and the bound of the ratio to their own shared memory
OVER_SIZES = [("write_lat", 8, 1.3), ("send_lat", 8, None), ("send_bw", 65536, 2.5),
              ("send_bw", 1 << 20, 3.0),
              ("mpi_lat", 8, None), ("mpi_lat", 65536, None), ("mpi_bw", 65536, None),
              ("mpi_bw", 1 << 20, None), ("fabric_lat", 8, None), ("fabric_lat", 65536, None)]


class Figure(namedtuple("Figure", "operation size peers most least")):
    """@peers: (source, operation); the best counts. @most or @least bounds ours / theirs."""

    def keys(self):
        """Of the peers' values. Some have one size."""
        for source, operation in self.peers:
            yield source, operation, SIZE_OF.get(operation, self.size)


def at_most(operation, size, bound, *peers):
    return Figure(operation, size, peers, bound, None)


def at_least(operation, size, bound, *peers):
    return Figure(operation, size, peers, None, bound)


USER_LATENCY = [(LIMIT, "vm_lat"), (CMA, "write_lat")]
USER_BANDWIDTH = [(LIMIT, "vm_bw"), (CMA, "write_bw")]

EXPECTED = [
    at_most("send_lat", 8, 1.0, (UCX, "send_lat")),
    at_most("send_lat", 4096, 1.0, (UCX, "send_lat")),
    at_most("write_lat", 8, 2.0, (UCX, "write_lat")),
    at_most("write_lat", 8, 0.12, *USER_LATENCY),
    at_most("read_lat", 8, 3.0, (LIMIT, "line_lat")),
    at_most("atomic_lat", 8, 3.0, (LIMIT, "line_lat")),
    at_least("write_bw", 65536, 0.85, (UCX, "write_bw")),
    at_least("write_bw", 1 << 20, 0.85, (UCX, "write_bw")),
    at_least("read_bw", 65536, 0.85, (UCX, "write_bw")),
    at_least("read_bw", 1 << 20, 0.85, (UCX, "write_bw")),
    at_least("write_bw", 65536, 3.5, *USER_BANDWIDTH),
    at_least("write_bw", 1 << 20, 3.5, *USER_BANDWIDTH),
    at_least("read_bw", 65536, 3.5, *USER_BANDWIDTH),
    at_least("read_bw", 1 << 20, 3.5, *USER_BANDWIDTH),
    at_least("send_bw", 65536, 2.0, (UCX, "send_bw")),
    at_least("send_bw", 1 << 20, 2.0, (UCX, "send_bw")),
    at_least("send_rate", 8, 1.5, (UCX, "am_rate")),
    at_least("write_rate", 8, 1.5, (UCX, "write_rate")),
]

EXPECTED_RXE = [
    figure
    for operation in ("send", "write", "read")
    for figure in (at_most(operation + "_lat", 8, 0.1, (RXE, operation + "_lat")),
                   at_least(operation + "_bw", 65536, 20.0, (RXE, operation + "_bw")))
] + [at_most(CONNECT, NO_SIZE, 0.2, (RXE, CONNECT))]

# Between two hosts: beside bare UDP, beside UDP that does what RoCE prescribes and no more, and
# beside others over TCP. write99_lat is what 99 of 100 do not exceed, send8_rate is of 8 queue
# pairs. send64_bw is of 64, each with memory of its own: beside one that has messages of as much
# memory (send_bw64), since what does not fit a cache takes longer.
BANDWIDTHS = [(operation, size) for operation in ("send", "write", "read")
              for size in (65536, 1 << 20)]
EXPECTED_WIRE = [
    at_most("send_lat", 8, 1.4, (UDP, "udp_lat")),
    at_most("write_lat", 8, 4.0, (UDP, "udp_lat")),
    at_most("write99_lat", 8, 60.0, (UDP, "udp_lat")),
    at_most("read_lat", 8, 4.0, (UDP, "udp_lat")),
    at_most("send_lat", 8, 1.0, (UCX_TCP, "write_lat")),
    at_most("send_lat", 8, 1.0, (FABRIC_TCP, "send_lat")),
    at_most("send_lat", 4096, 1.0, (UCX_TCP, "send_lat")),
    *(at_least("%s%s_rate" % (operation, queue_pairs), 8, 6.0, (UCX_TCP, operation + "_rate"))
      for operation in ("send", "write") for queue_pairs in ("", "8")),
    *(figure
      for operation, size in BANDWIDTHS
      for figure in (at_least(operation + "_bw", size, 0.85, (UDP, "udp_icrc_bw")),
                     at_least(operation + "_bw", size, 1.3, (UCX_TCP, "send_bw")),
                     at_least(operation + "64_bw", size, 0.9, (ANYVERBS, operation + "_bw64")))),
]

# The same where packets are lost.
EXPECTED_LOSS = [at_least(operation + "_bw", size, 1.0, (UCX_TCP, "send_bw"))
                 for operation, size in BANDWIDTHS]

# Between two hosts in an emulated machine, both with the same programs.
EXPECTED_WIRE_RXE = [
    figure
    for operation in ("send", "write", "read")
    for figure in (at_most(operation + "_lat", 8, 2.5, (RXE, operation + "_lat")),
                   at_least(operation + "_bw", 65536, 5.0, (RXE, operation + "_bw")))
]

# At every size, never behind the same kind of operation of a peer. The peers' PUT and GET reach
# only memory that they have allocated themselves; what they do to ordinary memory is compared where
# it was measured.
EVERY_SIZE = [
    ("send_lat", [(UCX, "send_lat"), (FABRIC, "send_lat")]),
    ("send_bw", [(UCX, "send_bw")]),
    ("write_lat", [(CMA, "write_lat")]),
    ("write_bw", [(CMA, "write_bw")]),
    ("write_lat", [(UCX, "write_lat")]),
    ("write_bw", [(UCX, "write_bw")]),
    ("read_lat", [(UCX, "read_lat")]),
    ("read_bw", [(UCX, "read_bw")]),
    ("atomic_lat", [(UCX, "atomic_lat")]),
]


def falls(operation):
    """Is less better?"""
    return operation.endswith("_lat")


def every_size():
    for operation, peers in EVERY_SIZE:
        for size in SIZES_OF.get(peers[0][0], SIZES) if operation != "atomic_lat" else [8]:
            bound = at_most if falls(operation) else at_least
            yield bound(operation, size, 1.0, *peers)


def best(values, operation):
    return min(values) if falls(operation) else max(values)


def is_measured(value):
    """Programs print 0 or inf if the clock has not moved, as an emulated machine's may not."""
    return value is not None and 0 < value < float("inf")


class Row:
    """A figure, worked out from the rounds' values."""

    def __init__(self, figure, rounds):
        self.figure = figure
        self.ours, self.theirs, self.ratios = [], [], []
        for values in rounds:
            mine = values.get((ANYVERBS, figure.operation, figure.size))
            peers = [values[key] for key in figure.keys() if is_measured(values.get(key))]
            if is_measured(mine) and peers:
                self.ours.append(mine)
                self.theirs.append(best(peers, figure.operation))
                self.ratios.append(self.ours[-1] / self.theirs[-1])

    def known(self):
        return bool(self.ratios)

    def ratio(self):
        return median(self.ratios)

    def spread(self):
        return (max(self.ratios) - min(self.ratios)) / self.ratio()

    def met(self):
        if self.figure.most is not None:
            return self.ratio() <= self.figure.most
        return self.ratio() >= self.figure.least

    def name(self):
        """For the file of recorded ratios."""
        peers = "+".join("%s.%s" % peer for peer in self.figure.peers).replace(" ", "_")
        return "%s/%d/%s" % (self.figure.operation, self.figure.size, peers)


def rows(figures, rounds):
    """@rounds: {(operation, size) of ours: the values that were measured together with it}, each"""
    found = (Row(figure, [values.get((figure.operation, figure.size), {}) for values in rounds])
             for figure in figures)
    return [row for row in found if row.known()]
