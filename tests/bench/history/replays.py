"""Speed, memory and start of replays over the history of the project, in CPU seconds and bytes.

Run in tests/bench: asv run v0.1..main --steps 20; asv publish; asv preview.  One commit: asv run --quick main^!
"""

import subprocess
import sys
import time

CALLS = 100_000
UNIT = 4096


class Replay:
    """Whole replays of appends of 4 KiB, with footprints as users get them."""

    timer = time.process_time
    params = ["nova-cow", "ext4-dax", "ext4", "pmfs-4k"]
    param_names = ["fs"]
    number = 1
    warmup_time = 0

    def setup(self, fs: str) -> None:
        import scmsim
        from scmsim.workload.microbench import Workload

        self.replay = scmsim.replay
        self.work = Workload("append", UNIT, UNIT * CALLS)
        scmsim.replay(Workload("append", UNIT, UNIT * 100), fs)  # compiles the kernels, or loads them

    def time_appends(self, fs: str) -> None:
        self.replay(self.work, fs)

    def peakmem_appends(self, fs: str) -> None:
        self.replay(self.work, fs)

    def track_page_walks(self, fs: str) -> int:
        """Return a figure of the result: a step in its history is a change of the models, not of speed."""
        return int(self.replay(self.work, fs).runs[0].metrics["dtlb_walks"])

    track_page_walks.unit = "page walks"  # type: ignore[attr-defined]


class Start:
    """Start of the command line, in seconds of wall time: no kernel is loaded."""

    number = 3

    def time_version(self) -> None:
        subprocess.run([sys.executable, "-m", "scmsim", "--version"], check=True, capture_output=True)

    def time_list(self) -> None:
        subprocess.run([sys.executable, "-m", "scmsim", "list", "fs"], check=True, capture_output=True)
