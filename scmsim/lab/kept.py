"""Write and read files of the plugin's records (Parquet), a part at a time: a column of numbers, and a header of JSON."""

import json
import os
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError
from scmsim.lab import regions
from scmsim.lab.counts import symbol_address
from scmsim.lab.measured import Measured
from scmsim.lab.plan import Plan

_ROWS = 1 << 20  # rows of a row group
_BATCH = 1 << 16


class Kept:
    """Records of one run, read a part at a time.

    Raises UsageError for a file that is missing, damaged or of another kind.
    """

    COLUMN: ClassVar[str]
    FORMAT: ClassVar[int]
    REFUSAL: ClassVar[tuple[str, str]]  # what a wrong file lacks, and the command that makes a correct file

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import pyarrow.parquet as pq

        try:
            self._file = pq.ParquetFile(path)
            self.header: dict[str, Any] = json.loads(self._file.schema_arrow.metadata[b"scmsim"])
            if self.header["format"] != self.FORMAT or self._file.schema_arrow.names != [self.COLUMN]:
                raise ValueError("of another version")
            self.rows: int = self._file.metadata.num_rows
            self.layout = regions.layout(int(self.header["image_end"]))
            self.learn()
        except (OSError, ValueError, KeyError, TypeError) as error:
            what, command = self.REFUSAL
            raise UsageError(f"{str(path)!r} {what} ({str(error)[:80]}); make it with {command}") from None

    def learn(self) -> None:
        """Read the fields of the header that a subclass adds."""

    def parts(self) -> Iterator[np.ndarray]:
        """Yield the records in order."""
        for batch in self._file.iter_batches(_BATCH):
            yield batch.column(0).to_numpy()

    @classmethod
    def write(
        cls,
        path: str | os.PathLike[str],
        packed: np.ndarray,
        run: tuple[str, Plan, Measured, str],
        more: dict[str, Any],
    ) -> None:
        """Write the records `packed` of a run, given as (file system, plan, measured, kernel); `more` goes into the header."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        fs, plan, measured, kernel = run
        header = {
            "format": cls.FORMAT,
            "fs": fs,
            "kernel": kernel,
            "calls": sum(region.calls for region in plan.regions),
            "image_end": symbol_address(measured.symbols, "_end") or regions.IMAGE_END,
            "huge_bytes": int(measured.about["huge_bytes"]),
            **more,
        }
        schema = pa.schema([(cls.COLUMN, pa.uint64())], metadata={"scmsim": json.dumps(header)})
        with whole(path) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as file:
            for start in range(0, len(packed), _ROWS):
                file.write(pa.table([np.ascontiguousarray(packed[start : start + _ROWS])], schema=schema))
