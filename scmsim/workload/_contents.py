"""Read the text files that users give to workloads: job files and configurations."""

import pathlib

from scmsim.core.errors import UsageError

MAX_BYTES = 1 << 20


def contents(path: str | pathlib.Path, what: str) -> str:
    """Return the text of a file; `what` names the expected kind of file in error messages.

    Raises UsageError for a file that cannot be read, and for a file longer than MAX_BYTES.
    """
    try:
        with open(path, "rb") as file:
            found = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:  # the path has a NUL character
        raise UsageError(f"cannot read {str(path)!r}: the text is not a valid path") from None
    if len(found) > MAX_BYTES:
        raise UsageError(f"{str(path)!r} is longer than {MAX_BYTES >> 20} MiB; is it {what}?")
    return found.decode(errors="replace")
