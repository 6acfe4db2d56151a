"""YCSB's property files: the requests of a CoreWorkload to the LSM store of `lsm`, with the file's mix and sizes.

Source: CoreWorkload of brianfrankcooper/YCSB and its RocksDB binding (see _ycsb, lsm).  Instead of `workload`'s letter,
the file gives the proportions, distribution, records, operations, fields and scans.
"""

import pathlib
from collections.abc import Sequence

from scmsim.core.errors import UsageError
from scmsim.workload import _foreign, _stream, lsm
from scmsim.workload._contents import contents

SUMMARY = "YCSB: reads a property file (recordcount, readproportion, ...) and sends its requests to an LSM store (lsm)"
PARAMS = {
    "file": ("", "file", "property file, such as YCSB's workloads/workloada"),
    "write_buffer": ("64MiB", "bytes", "memtable size"),
    "block": ("4KiB", "bytes", "size of a data block"),
    "bloom": ("0", "bits", "bits of a bloom filter for each key (0: none, RocksDB's default)"),
    "sync": ("no", "bool", "fdatasync the log after each put"),
    "seed": ("1", "seed", "seed of the requests"),
    "interval": ("1us", "time", "trace time between two calls"),
}


class Workload(lsm.Workload):
    """Stream of the store's calls under the requests of a property file (a records.Source); see PARAMS.

    Raises UsageError for a file that cannot be read, or a property that is not modelled (named, with its line).
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        if not p.file:
            raise UsageError(
                "give a property file, such as YCSB's workloads/workloada; for A to F: scmsim synth lsm --workload a"
            )
        text = contents(p.file, "a YCSB property file")
        numbers, self.shares, self.chosen, silent = _foreign.ycsb(text, pathlib.Path(p.file).name)
        self.longest_scan = numbers["maxscanlength"]
        # the RocksDB binding stores each field's name and value with their lengths (4 bytes each)
        names = sum(len(f"field{i}") for i in range(min(numbers["fieldcount"], 1 << 16)))
        value = names + numbers["fieldcount"] * (8 + numbers["fieldlength"])
        if numbers["fieldcount"] > 1 << 16 or value > 1 << 30:
            raise UsageError(
                f"{pathlib.Path(p.file).name}: a record of {value:,} bytes is too large; give smaller or fewer fields"
            )
        super().__init__(
            records=numbers["recordcount"],
            operations=numbers["operationcount"],
            value=value,
            write_buffer=p.write_buffer,
            block=p.block,
            bloom=p.bloom,
            sync=p.sync,
            seed=p.seed,
            interval=p.interval,
        )
        self.header = _stream.header("ycsb", p)
        self.header["notes"] = [f"properties that change no call: {', '.join(silent)}"] if silent else []

    def mixed(self, workload: str) -> tuple[tuple[Sequence[float], str], int]:
        """Return the file's shares and distribution of the requests, and its longest scan."""
        return (self.shares, self.chosen), self.longest_scan
