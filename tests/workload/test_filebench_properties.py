"""Filebench's compiled flowops against their reference implementation, on random programs and on the shipped personalities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import SETUP
from scmsim.workload import filebench
from tests.conftest import NO_JIT
from tests.reference.filebench_slow import play

HEAD = """
define fileset name=a,path=/x,size=cvar(type=cvar-gamma,parameters=mean:9000;gamma:1.5),entries=9,dirwidth=4,prealloc=60
define fileset name=b,path=/x,size=3000,entries=4,dirwidth=2,prealloc
"""

fd = st.sampled_from(["", ",fd=1", ",fd=2", ",opennext"])
named = st.sampled_from([",filesetname=a", ",filesetname=b"])
unit = st.sampled_from([",iosize=1k", ",iosize=4k,random", ",iosize=700,workingset=2k", ",iosize=3000,iters=3"])
WITHOUT_TRANSFER = ["createfile", "openfile", "closefile", "deletefile", "statfile", "fsync", "fsyncset"]
WITH_TRANSFER = [
    "read",
    "write",
    "appendfile",
    "appendfilerand",
    "readwholefile",
    "writewholefile",
    "writewholefile,srcfd=1",
]
flowop = st.one_of(
    st.tuples(st.sampled_from(WITHOUT_TRANSFER), fd, named),
    st.tuples(st.sampled_from(WITH_TRANSFER), fd, named, unit),
    st.sampled_from([("semblock", ",value=3"), ("sempost", ",value=2,target=f0"), ("hog", ",value=9")]),
)  # fmt: skip
thread = st.tuples(st.sampled_from(["", ",memsize=16k"]), st.integers(1, 3), st.lists(flowop, min_size=3, max_size=14))


def text(threads):
    out = HEAD + "define process name=p,instances=1 {\n"
    for memory, count, flowops in threads:
        out += f"thread name=t{memory},instances={count} {{\n"
        for number, (kind, *rest) in enumerate(flowops):
            kind, _, extra = kind.partition(",")
            out += f"flowop {kind} name=f{number}{',' * bool(extra)}{extra}{''.join(rest)}\n"
        out += "}\n"
    return out + "}\n"


def made(work):
    """The STEPs after the set-up, as tuples."""
    steps = np.concatenate(list(work.steps()))
    return [tuple(int(n) for n in step) for step in steps[(steps["flag"] & SETUP) == 0]]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("filebench") / "w.f"


@settings(max_examples=5 if NO_JIT else 150)
@given(
    st.lists(thread, min_size=1, max_size=3),
    st.integers(100, 600),
    st.sampled_from(["wait", "stop"]),
    st.integers(0, 9),
)
def test_random_programs(path, threads, flowops, starved, seed):
    path.write_text(text(threads))
    work = filebench.Workload(file=str(path), flowops=flowops, starved=starved, seed=seed)
    assert made(work) == play(work)


@pytest.mark.parametrize("personality", ["fileserver", "webserver", "varmail", "webproxy", "oltp", "videoserver"])
def test_personalities(personality):
    smaller = {"videoserver": "filesize=3m nthreads=3", "oltp": "nshadows=9 ndbwriters=2"}
    changed = smaller.get(personality, "nfiles=200 nthreads=3")
    work = filebench.Workload(personality=personality, flowops=4000, set=changed)
    assert made(work) == play(work)
