# SPDX-License-Identifier: MIT
"""
What programs of a kind have in common: the arguments that no row wants to repeat, and how to see
that all is well.
"""
import filecmp
import re
from select import POLLHUP
from collections import namedtuple

SIZES_OF_ALL = 23    # perftest -a: 2^1 .. 2^23 bytes
UCX_ROW = re.compile(r"^\s*\d+(\s+\d+\.\d+){5}\s+\d+\s+\d+\s*$", re.MULTILINE)
LIBFABRIC_ROW = re.compile(r"^\d+[km]?\s+(\d+k?)\s+=\1\s", re.MULTILINE)
# A deviation is "-nan" where one latency is thousands of times the others, as of a side that waited
# for a core.
PERFTEST_ROW = re.compile(r"^\s*\d+\s+\d+(\s+\d+\.\d+)+(\s+-nan(\s+\d+\.\d+)+)?\s*$",
                          re.MULTILINE)

STREAM_ROW = re.compile(r"^(\w+) +\w+ +\w+ +\d+ +[\w.]+ +\d+\.\d+s +", re.MULTILINE)


def verbs_words(words, port, peer):
    """The arguments every command needs and no row wants to repeat.
    @peer: the server's address, for its client"""
    extra = ["-p", str(port)]
    if "-d" not in words and not words[0].startswith("ucx_"):  # which has them for some tests only
        extra += ["-d", "any0"]
    if words[0].startswith("ib_"):
        # perftest: does not complain about the CPU's frequency governor; and the other host may
        # wait for a core, which by itself it bears for half a second
        extra += ["-F", "-u", "16"]
    return words + extra + ([peer] if peer else [])


def libfabric_words(words, port, peer):
    return words + (["-P", str(port), peer] if peer else ["-B", str(port)])


def qperf_words(words, port, peer):
    """A row has what its client does, and the server does that, too;
    the last thing it does is to end."""
    start = [words[0], "-lp", str(port)]
    if not peer:
        return start
    device = [] if "-cm1" in words else ["-i", "any0"]  # librdmacm finds it by the address
    return start + device + ["-t", "1", peer] + words[1:] + ["quit"]


def judge_pingpong(words, outputs):
    for name, text in outputs.items():
        # ibv_xsrq_pingpong and shared_mr measure nothing and say so.
        if not re.search(r"iters in|^success$|data match$|has succeeded$", text, re.MULTILINE):
            return "no \"iters in\" and no \"success\" from the %s" % name
        if "-c" in words and "invalid data" in text:
            return "the %s read invalid data" % name
    return None


def judge_perftest(words, outputs):
    rows = PERFTEST_ROW.findall(outputs["client"])
    wanted = SIZES_OF_ALL if "-a" in words else 1
    if len(rows) != wanted:
        return "%d rows of results from the client, not %d" % (len(rows), wanted)
    return None


def judge_ucx(words, outputs):
    if len(UCX_ROW.findall(outputs["client"])) == 1:
        return None
    return "no row of results from the client"


def judge_libfabric(words, outputs):
    for name, text in outputs.items():
        if len(LIBFABRIC_ROW.findall(text)) != 1:
            return ("no row of results from the %s in which all that was sent was acknowledged"
                    % name)
    return None


def judge_qperf(words, outputs):
    tests = [word for word in words[1:] if not word.startswith("-")]
    missing = [test for test in tests
               if not re.search(r"^%s:\n +\w+ += +[1-9]" % test, outputs["client"], re.MULTILINE)]
    return "no figure of " + ", ".join(missing) if missing else None


# --- librdmacm's own programs -------------------------------------------------------------------


def rping_words(words, port, peer):
    address = ["-a", peer] if peer and "-a" not in words else []
    return ["rping", "-c" if peer else "-s", *address, "-p", str(port), *words[1:]]


def rping_ended(code, text):
    """It closes its event channel while a thread of it begins to wait there: 255 by its own doing,
    with any device. What it has to say about pings comes before that."""
    return code == 0 or (code == 255 and "rdma_get_cm_event: Bad file descriptor" in text)


def judge_rping(words, outputs):
    wanted = int(words[words.index("-C") + 1])
    for name, text in outputs.items():
        pings = len(re.findall(r"ping data: rdma-ping-\d+: ", text))
        if pings != wanted:
            return "%d pings at the %s, not %d" % (pings, name, wanted)
        if re.search("mismatch|failed|error", text):
            return "the %s has seen an error" % name
    return None


def with_port(words, port, peer):
    return [*words, "-p", str(port), *(["-s", peer] if peer else [])]


def controlled_words(words, port, peer):
    """cmtime since rdma-core 59: a row has the side's own address; the server is the controller."""
    own = words[words.index("-b") + 1]
    return [*words, "-p", str(port), "-C", peer or own, *([] if peer else ["-L"])]


def without_port(words, _port, peer):
    """Their port is always the same one, or they take a kind of port by -p."""
    return words + (["-s", peer] if peer else [])


def client_of(words, port, peer):
    name = words[0].replace("server", "client") if peer else words[0]
    return with_port([name, *words[1:]], port, peer)


def mckey_words(words, _port, peer):
    return words + ["-s"] if peer else ["stdbuf", "-oL", *words]


def judge_status(_words, outputs):
    for name, text in outputs.items():
        if not re.search(r"^data transfers complete$", text, re.MULTILINE):
            return "no data at the %s" % name
        if not re.search(r"^return status 0$", text, re.MULTILINE):
            return "the %s has seen an error" % name
    return None


def judge_end(_words, outputs):
    bad = [name for name, text in outputs.items() if not re.search(r": end 0$", text, re.MULTILINE)]
    return "no good end of the " + ", ".join(bad) if bad else None


# What cmtime says of a connection that has failed, before it goes on.
CMTIME_FAILED = re.compile(r"^(?:event: |RDMA_CM_EVENT_\w+_ERROR).*", re.MULTILINE)


def judge_cmtime(_words, outputs):
    """Newer ones have no colon, and say "cm connect" and "destroy id"."""
    failed = CMTIME_FAILED.search(outputs["client"])
    if failed:
        return "the client says: " + failed[0]
    steps = re.findall(r"^(?:cm )?([a-z]+)(?: \w+)* *:? +\d", outputs["client"], re.MULTILINE)
    wanted = {"connect", "disconnect", "destroy"}
    return None if wanted <= set(steps) else "steps of the client: " + ", ".join(steps)


def stream_ended(code, text):
    """With -T a, the last data and the end of the connection may be there at once. It takes the
    end, POLLHUP, for an error, and makes it its exit status; its doing."""
    return code == 0 or (code == POLLHUP and not re.search("rrecv|rsend|verif", text))


def judge_stream(words, outputs):
    """Both have the same tests' rows; with -T a, the client may lack the last one."""
    rows = {name: STREAM_ROW.findall(text) for name, text in outputs.items()}
    asynchronous = stream_options(words) & {"a"}
    if not rows["server"] or rows["client"] not in (
            rows["server"], *([rows["server"][:-1]] if asynchronous else [])):
        return "rows of results: %s" % rows
    return None


def rcopy_words(words, port, peer):
    """A row has the file; it is copied to its name with ".copy"."""
    if not peer:
        return ["rcopy", "-p", str(port)]
    return ["rcopy", words[1], "%s:%s.copy" % (peer, words[1]), "-p", str(port)]


def judge_copy(words, _outputs):
    same = filecmp.cmp(words[1], words[1] + ".copy", shallow=False)
    return None if same else "the copy differs"


def stream_options(words):
    return {words[i + 1] for i, word in enumerate(words) if word == "-T"}


def fio_words(words, port, peer):
    """Who reads is the server. It listens itself, not a child of it."""
    engine = ["fio", "--name=" + ("send" if peer else "receive"), "--thread", "--ioengine=rdma",
              "--port=%d" % port, *words[1:]]
    return engine + (["--rw=write", "--hostname=" + peer] if peer else ["--rw=read"])


def judge_fio(words, outputs):
    size = next(word.split("=")[1] for word in words if word.startswith("--size="))
    done = re.search(r"^ *WRITE: .* io=([0-9]+)(?:\.0)?MiB", outputs["client"], re.MULTILINE)
    if not done or done.group(1) + "m" != size:
        return "the client has not written " + size
    bad = [name for name, text in outputs.items() if "err= 0:" not in text]
    return "an error at the " + ", ".join(bad) if bad else None


# --- programs of TCP, by librspreload.so ----------------------------------------------------------


def iperf_words(words, port, peer):
    side = ["-c", peer, *words[1:]] if peer else ["-s"]
    return [words[0], *side, "-p", str(port)]


def judge_iperf(words, outputs):
    size = words[words.index("-n") + 1].replace("M", ".0 MBytes")
    bad = [name for name, text in outputs.items() if size not in text]
    return "not %s at the %s" % (size, ", ".join(bad)) if bad else None


def netcat_words(words, port, peer):
    """A row has the file, which the server sends; the client writes it to its name with ".copy".
    The server ends a second after it has read the file, since it does not close its socket: what
    rsockets have not sent by then would be lost."""
    if not peer:
        return ["sh", "-c", 'exec "$0" -q 1 -l -p "$1" <"$2"', words[0], str(port), words[1]]
    return ["sh", "-c", 'exec "$0" "$1" "$2" </dev/null >"$3".copy', words[0], peer, str(port),
            words[1]]


# How a server listens. One of a group says that it has joined: a member that sends waits for others
# by itself, but for 3 s.
TCP, MANAGER, BY_JOINING = range(3)
JOINED = re.compile(r"^mckey: joined ", re.MULTILINE)


def by_tcp(_words):
    return TCP


def by_manager(_words):
    return MANAGER


def by_joining(_words):
    return BY_JOINING


def perftest_listens(words):
    return MANAGER if "-R" in words or "-z" in words else TCP


def stream_listens(words):
    """-T s is over TCP; -T f begins there, and goes on by RDMA where librspreload.so is loaded."""
    return TCP if stream_options(words) & {"f", "s"} else MANAGER


def ended_well(code, _text):
    return code == 0


# @words: (command, port, server's address or None for the server itself) -> words
# @judge: (command, {side: text}) -> None, or what is wrong
# @listens: (command) -> how
# @endless: its server has to be stopped, unless a newer one ends by itself
# @ended_well: (exit status, text)
Family = namedtuple("Family", "words judge listens endless ended_well",
                    defaults=(by_tcp, False, ended_well))
OWN = Family(with_port, judge_status, by_manager)
PAIR = Family(client_of, judge_end, by_manager)
CONTROLLED = Family(controlled_words, judge_cmtime)
STREAM = Family(with_port, judge_stream, stream_listens, ended_well=stream_ended)
FAMILIES = {
    "ib": Family(verbs_words, judge_perftest, perftest_listens),
    "ibv": Family(verbs_words, judge_pingpong),
    "ucx": Family(verbs_words, judge_ucx),
    "fi": Family(libfabric_words, judge_libfabric),
    "qperf": Family(qperf_words, judge_qperf),
    "fio": Family(fio_words, judge_fio, by_manager),
    "rping": Family(rping_words, judge_rping, by_manager, ended_well=rping_ended),
    "ucmatose": OWN,
    "udaddy": OWN._replace(words=without_port),
    "mckey": OWN._replace(words=mckey_words, listens=by_joining),
    "rdma": PAIR,
    "cmtime": Family(with_port, judge_cmtime, by_manager, endless=True),
    "rstream": STREAM,
    "riostream": STREAM,
    "rcopy": Family(rcopy_words, judge_copy, by_manager, endless=True),
    "iperf": Family(iperf_words, judge_iperf, by_manager, endless=True),
    "nc.traditional": Family(netcat_words, judge_copy, by_manager),
}


def family(words):
    if words[0] == "cmtime" and "-b" in words:
        return CONTROLLED
    return FAMILIES[words[0].split("_")[0]]
