"""Random vdbench parameter files beside the real program under strace, call by call.

    python -m tests.verification.vdbench_files FOLDER --count 20 --seed 1

FOLDER has a build of vdbench: classes/ and linux/linux64.so.  One thread, no random choice, as vdbench draws by the clock; stat
calls are left out.  Exit code 1 if a file differs.
"""

import argparse
import collections
import pathlib
import random
import subprocess
import tempfile

import numpy as np

from scmsim.core.errors import ScmsimError
from scmsim.core.records import OPS, SETUP
from scmsim.trace.formats.tracers import strace
from scmsim.trace.store import TraceWriter, open_trace
from scmsim.workload import vdbench

JAVA = "exec {trace} java -Xmx400m -cp {folder}/:{folder}/classes Vdb.{main} $*"
Row = tuple[str, str, int, int]


def file_text(draw: random.Random, top: str) -> str:
    """Return a random parameter file with one thread and nothing drawn."""
    size, unit = draw.choice(["10k", "4k", "1m", "100000", "64k"]), draw.choice(["4k", "8k", "1000", "64k", "1m"])
    lines = [
        "* random",
        f"fsd=default,depth={draw.randint(1, 3)},width={draw.randint(1, 3)},files={draw.randint(1, 4)}",
    ]
    spread = draw.choice(["", "", ",distribution=all"])
    lines.append(f"fsd=f1,anchor={top}/a,size={size}{spread}" + draw.choice(["", ",openflags=o_sync", ",shared=no"]))
    kind = draw.choice(["read", "read", "write", "write", "create", "delete", "open", "close"])
    more = draw.choice(["", ",fileselect=sequential", ",fileselect=(sequential,once)", ",fileselect=once"])
    more += draw.choice(["", ",fileio=sequential", ",fileio=(seq,delete)" if kind == "write" else ""])
    lines.append(f"fwd=format,threads=1,xfersize={draw.choice(['64k', '128k', '3k'])}")
    lines.append(f"fwd=w1,fsd=f*,operation={kind},xfersize={unit},threads=1{more}")
    formats = "(yes,directories)" if kind == "create" else "yes"
    lines.append(f"rd=r1,fwd=w1,fwdrate=200,format={formats},elapsed=3,interval=1")
    return "\n".join(lines) + "\n"


def rows_of(batch: np.ndarray, paths: list[str], top: str) -> list[Row]:
    """Return the (call, path, offset, length) of the rows of vdbench's directories and files, without stat."""
    found = []
    for r in batch:
        op, path = OPS[r["op"]], paths[r["file"]] if r["file"] >= 0 else ""
        if path.startswith(f"{top}/a/vdb") and not path.endswith("control.file") and op != "stat":
            moves = op in ("read", "write")
            found.append((op, path[len(top) :], int(r["offset"]) if moves else 0, int(r["length"]) if moves else 0))
    return found


def compared(build: pathlib.Path, text: str, top: str) -> tuple[str, str]:
    """Return ("equal", ...), ("differs", where), ("refused", why) or ("fails", why) for a file."""
    folder = pathlib.Path(top)
    (folder / "p.txt").write_text(text)
    try:
        work = vdbench.Workload(file=str(folder / "p.txt"), operations=3000)
        batch = np.concatenate(list(work.batches()))
    except ScmsimError as error:
        return "refused", str(error).splitlines()[-1]
    for name in ("classes", "linux"):
        (folder / name).symlink_to(build / name)
    traced = f"strace -f -y -s 0 -e trace=%file,%desc -o {top}/t.strace"
    slave, main = (
        JAVA.format(trace=traced, folder=top, main="SlaveJvm"),
        JAVA.format(trace="", folder=top, main="Vdbmain"),
    )
    (folder / "vdbench").write_text(f'#!/bin/bash\nif [ "$1" == SlaveJvm ]; then {slave}; else {main}; fi\n')
    (folder / "vdbench").chmod(0o755)
    (folder / "a").mkdir()
    ran = subprocess.run(
        [f"{top}/vdbench", "-f", "p.txt", "-o", "out"], cwd=top, capture_output=True, text=True, timeout=120
    )
    if "completed successfully" not in ran.stdout:
        return "fails", " / ".join(ran.stdout.strip().splitlines()[-3:])[:200]
    with TraceWriter(f"{top}/t.parquet", {}) as writer:
        strace.convert(f"{top}/t.strace", writer)
    stored = open_trace(f"{top}/t.parquet")
    theirs = rows_of(np.concatenate(list(stored.batches())), stored.files.path, top)
    made = int(((batch["flag"] & SETUP) != 0).sum())
    ours = rows_of(batch, work.files.path, top)
    cut = [
        *ours[: len(theirs) - 1],
        *theirs[-1:],
    ]  # where the clock ended vdbench's run, which then closes the open file
    if theirs in (ours, cut) and len(theirs) > made:
        return "equal", f"{made} made, {len(theirs) - made} calls"
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return (
        "differs",
        f"row {at} of {len(ours)}, {len(theirs)} ({made} made): {ours[at : at + 2]} and {theirs[at : at + 2]}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    results: collections.Counter[str] = collections.Counter()
    for number in range(args.seed, args.seed + args.count):
        with tempfile.TemporaryDirectory() as top:
            text = file_text(random.Random(number), top)
            state, about = compared(args.folder.resolve(), text, top)
        results[state] += 1
        print(f"seed {number}: {state}: {about}\n{text if state != 'equal' else ''}", end="", flush=True)
    print(dict(results))
    return int(bool(results["differs"]))


if __name__ == "__main__":
    raise SystemExit(main())
