"""Write a capture's trace: header entries of the capture override those of the importer of its text."""

import os
from typing import Any

from scmsim.core.records import Files
from scmsim.trace.store import TraceWriter


class CaptureWriter(TraceWriter):
    """A TraceWriter that completes the header with the facts of the capture, and that can replace names.

    Parameters
    ----------
    path : path-like
    facts : dict
        Entries of the header.  The lists `blind_spots` and `notes` extend those of the importer.
    anonymize : bool
        Replace every name, see `_anonymize`.
    """

    def __init__(self, path: str | os.PathLike[str], facts: dict[str, Any], anonymize: bool = False) -> None:
        super().__init__(path, dict(facts))
        self._facts = facts
        self._anonymize = anonymize

    def close(self, files: Files) -> None:
        """Complete the header, replace the names if `anonymize` is set, and move the file to its name."""
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
