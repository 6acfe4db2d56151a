"""The trace writer of a capture: what the capture knows wins over what the importer of its text says."""

import os
from typing import Any

from scmsim.core.records import Files
from scmsim.trace.store import TraceWriter


class CaptureWriter(TraceWriter):
    """A TraceWriter whose header ends with the facts of the capture, and whose names can be replaced.

    Parameters
    ----------
    path : path-like
    facts : dict
        Entries of the header.  The lists `blind_spots` and `notes` are added to those of the importer.
    anonymize : bool
        Replace every name, see `_anonymize`.
    """

    def __init__(self, path: str | os.PathLike[str], facts: dict[str, Any], anonymize: bool = False) -> None:
        super().__init__(path, dict(facts))
        self._facts = facts
        self._anonymize = anonymize

    def close(self, files: Files) -> None:
        """Complete the header, replace the names if asked to, and put the file in its place."""
        for name, value in self._facts.items():
            if name in ("blind_spots", "notes"):
                value = [*self.header.get(name, []), *value]
            self.header[name] = value
        if self._anonymize:
            from scmsim.trace.capture._anonymize import Anonymizer

            hidden = Anonymizer()
            self.header = hidden.header(self.header)
            files = Files([hidden.path(path) for path in files.path], files.first_size, files.is_dir)
        super().close(files)
