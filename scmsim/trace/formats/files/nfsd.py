"""Import clients' reads, writes and commits from text of the Linux NFS server's tracepoints.

The text comes from trace-cmd report, ftrace or perf script:

    trace-cmd record -e nfsd -e sunrpc:svc_process && trace-cmd report > run.txt

`... SECONDS: [nfsd:]nfsd_read_done: xid=0x1 fh_hash=0x2 offset=0 len=4096` (fs/nfsd/trace.h, nfsd_io_class).  The event
`_done` makes a row, with the bytes that were moved; the other events of the same request are left out.  A file is
`/nfs/HASH` of its handle: the events lack names, opens and removals.  A commit is an fsync.

The events of sunrpc have neither file nor offset (net/sunrpc, include/trace/events/sunrpc.h).  `svc_process` has the name of
a request's procedure, `nfsd_compound_status` that of an NFS 4 operation; names that make no row are counted.
"""

import os
import re
from collections import Counter

from scmsim.core.errors import UsageError
from scmsim.trace.reading.builder import BLANK, TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, nanoseconds, whole
from scmsim.trace.reading.report import Report

SUMMARY = "tracepoints of the Linux NFS server as text (nfsd_read_done, nfsd_write_done, nfsd_commit_done)"
_TOOL = "text with tracepoints of the NFS server"
# every repetition has a bound, so that a search takes time linear in the length of a damaged line
_LINE = re.compile(r"(?<!\S)\[?(\d{1,12}\.\d{1,12})\]?:\s{1,8}(?:nfsd:)?nfsd_(\w{1,64}):(.*)")
_IO = re.compile(r"\bfh_hash=(0x[0-9a-f]{1,16})\s{1,8}offset=(\d{1,20})\s{1,8}len=(\d{1,20})")
_THREAD = re.compile(r"(\d{1,10})\s{1,8}\[\d{1,8}\]")
_SNIFF = re.compile(
    rb"\d\.\d{1,12}:\s{1,8}(?:(?:nfsd:)?nfsd_\w{1,64}:\s{1,8}xid=0x|(?:sunrpc:)?svc_process:\s{1,8}addr=)"
)
_OTHER_EVENT = re.compile(r"\d\.\d{1,12}:\s{1,8}\S{1,128}:")
_TITLE = re.compile(r"\s*#|cpus=|version = |CPU \d+ is empty")
_SUNRPC = re.compile(
    r"\d\.\d{1,12}\]?:\s{1,8}(?:sunrpc:)?(?:svc|svcsock|rpc|rpcb|xprt|xs|cache|svcrdma|rpcgss)_\w{1,64}:(.*)"
)
_PROCEDURE = re.compile(r"\bservice=nfsd\s{1,8}vers=\d{1,4}\s{1,8}proc=(\w{1,40})")
_OPERATION = re.compile(r"\bop=\d{1,8}/\d{1,8}\s{1,8}OP_(\w{1,40})")
_HAVE_ROWS = ("READ", "WRITE", "COMMIT", "COMPOUND", "NULL")  # a compound is counted by its operations
_DONE = ("read_done", "write_done", "commit_done")


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether one of the first lines is a tracepoint of nfsd or svc_process."""
    return _SNIFF.search(head) is not None


@importer
def convert(job: Import) -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`)."""
    builder = job.builder()
    requests: Counter[str] = Counter()
    builder.lines(lambda line: _take(builder, requests, line), _TOOL)
    if not builder.report.calls and requests:
        raise UsageError(
            f"{job.given.path!r} has requests by name only, without files and offsets; record these, too: trace-cmd record -e nfsd"
        )
    for name in _HAVE_ROWS:
        del requests[name]
    told = ", ".join(f"{name} {count}" for name, count in requests.most_common())
    builder.report.blind_spots += [f"requests that make no row: {told}"] if told else []
    return builder.finish("nfsd", _TOOL, clock="seconds of the tracer", names="hashes of file handles")


def _take(builder: TraceBuilder, requests: Counter[str], line: str) -> str | None:
    if not line.strip():
        return BLANK
    if _TITLE.match(line):
        return "title"
    m = _LINE.search(line)
    if m is None:
        if rpc := _SUNRPC.search(line):
            name = _PROCEDURE.search(rpc[1])
            requests.update([name[1]] if name else [])
            return "event of sunrpc"
        if _OTHER_EVENT.search(line):
            return "another event"
        raise BadLine("this is not a line of a tracer")
    event = m[2]
    if event not in _DONE:
        name = _OPERATION.search(m[3]) if event == "compound_status" else None
        requests.update([name[1]] if name else [])
        return "another event of the NFS server"
    io = _IO.search(m[3])
    if io is None:
        raise BadLine(f"nfsd_{event} without fh_hash, offset or len")
    now = builder.at(nanoseconds(m[1], 10**9))
    thread = _THREAD.search(line, 0, m.start())
    who = builder.thread(thread[1] if thread else "")
    file, offset, length = builder.file(f"/nfs/{io[1]}"), whole(io[2], "offset"), whole(io[3], "len")
    if event == "read_done":
        return builder.read(now, file, offset, length, who)
    if event == "write_done":
        return builder.write(now, file, offset, length, who)
    return builder.sync(now, file, who)
