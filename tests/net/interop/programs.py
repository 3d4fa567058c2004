# SPDX-License-Identifier: MIT
"""
What a command of a row needs at either end, and which output of it is right. In the guest, $DEV
and $GID are the end's device and index, $HERE and $THERE the two ends' addresses, and $PEER the
other end's IPv4 address.
"""
import os
import re
import sys
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "clients"))

import families  # pylint: disable=wrong-import-position

PORT = 18515    # guest.sh waits for it
KILLED = 137
TERMINATED = 143
# The figures may be "inf": the emulated processor's speed is not always found out.
PERFTEST_ROW = re.compile(r"^\s*\d+\s+\d+(\s+\S+){3,}\s*$", re.MULTILINE)

# Programs that connect by librdmacm: what tells server and client who they are, and what a client
# says that has reached its end.
Connects = namedtuple("Connects", "server client says")
CONNECT = {
    "rping": Connects("-s -a $HERE -p PORT", "-c -a $THERE -p PORT", r"^ping data: rdma-ping-"),
    "ucmatose": Connects("-b $HERE -p PORT", "-s $THERE -p PORT", r"^return status 0$"),
    "udaddy": Connects("-b $HERE", "-s $THERE", r"^return status 0$"),
    "rdma_client": Connects("-p PORT", "-s $THERE -p PORT", r"^rdma_client: end 0$"),
    "rdma_xclient": Connects("-p PORT", "-s $THERE -p PORT", r"^rdma_xclient: end 0$"),
    "rcopy": Connects("-p PORT", "/bin/bash $THERE:/tmp/copied -p PORT", r"^\d+ bytes in "),
    "rstream": Connects("-b $HERE -p PORT", "-s $THERE -p PORT", r"^\S+ +\S+ +\S+ +\S+ +\d"),
    "riostream": Connects("-b $HERE -p PORT", "-s $THERE -p PORT", r"^\S+ +\S+ +\S+ +\S+ +\d"),
    "mckey": Connects("-b $HERE", "-b $HERE -s", r"^return status 0$"),
    "cmtime": Connects("-b $HERE -p PORT", "-s $THERE -p PORT", None),    # families.py knows
    "interop_connect": Connects("-s $HERE -p PORT", "-c $THERE -p PORT", r"^as expected$"),
}
SERVER_OF = {"rdma_client": "rdma_server", "rdma_xclient": "rdma_xserver"}
STAYS = ("cmtime", "rcopy")    # its server waits for more
JOINS = ("mckey",)    # both ends join 239.1.2.3, and 3 s later one of them sends


class Command:
    """What both ends run."""

    def __init__(self, text):
        self.words = text.split()
        self.name = self.words[0]
        self.connects = CONNECT.get(self.name)
        self.is_perftest = self.name.startswith("ib_")

    def waits_for(self):
        """How guest.sh sees that the server is ready."""
        if self.name in JOINS:
            return "group"
        return "cm" if self.connects or "-R" in self.words else "tcp"

    def servers_end(self):
        """Whether guest.sh has to end the server."""
        return "stays" if self.name in STAYS else "ends"

    def of_both(self):
        """(server's, client's)"""
        if self.connects:
            return tuple(" ".join([name, *told.replace("PORT", str(PORT)).split(), *self.words[1:]])
                         for name, told in ((SERVER_OF.get(self.name, self.name),
                                             self.connects.server),
                                            (self.name, self.connects.client)))
        words = list(self.words)
        if "-R" not in words:
            words += ["-d", "$DEV", "-x" if self.is_perftest else "-g", "$GID"]
        words += ["-p", str(PORT)]
        if self.is_perftest:
            words += ["-F", "-u", "16"]    # as in families.py
        return " ".join(words), " ".join(words + ["$PEER"])

    def code(self, end):
        """With which @end ends that does what it should."""
        last = self.words[-1]
        if self.name in STAYS and end == "server":
            return TERMINATED
        dies = re.match(r"(server|client)_(killed|lost|early)$", last)
        return KILLED if self.name == "interop_connect" and dies and dies[1] == end else 0

    def ended_well(self, end, code, text):
        if self.name == "rping":
            return families.rping_ended(code, text)
        return code == self.code(end)

    def problem(self, codes, outputs):
        """None if all is well."""
        wrong = ["%s exited %d" % (end, code) for end, code in sorted(codes.items())
                 if not self.ended_well(end, code, outputs[end])]
        if wrong:
            return ", ".join(wrong)
        if self.name == "cmtime":
            return families.judge_cmtime(self.words, outputs)
        if self.connects:
            said = re.search(self.connects.says, outputs["client"], re.MULTILINE)
            return None if said else "the client does not say that it has done it"
        if not self.is_perftest:
            return families.judge_pingpong(self.words, outputs)
        if len(PERFTEST_ROW.findall(outputs["client"])) != 1:
            return "no row of results from the client"
        return None
