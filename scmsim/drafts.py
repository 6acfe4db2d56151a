"""Files that are there whole or not at all: written under another name in the same folder, then renamed."""

import contextlib
import os
import pathlib
from collections.abc import Iterator


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yield the path of a draft, which takes the place of `path` at the end, or is removed if that fails.

    The draft's name ends as `path` does, since writers go by the suffix.  Errors of the disk are the caller's to word.
    """
    target = pathlib.Path(path)
    draft = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        yield draft
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
