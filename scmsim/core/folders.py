"""Compute the common directory of a trace's paths, and the directory depth of a path."""

from collections.abc import Iterable, Sequence


def common_folder(paths: Sequence[str], is_dir: Iterable[bool]) -> str:
    """Return the deepest directory that holds all absolute paths, with a slash at its end; "" if no path is absolute."""
    pairs = zip(paths, is_dir, strict=True)
    folders = [
        f"{path.rstrip('/')}/" if folder else path[: path.rfind("/") + 1] for path, folder in pairs if path[:1] == "/"
    ]
    if not folders:
        return ""
    first, last = min(folders), max(folders)  # a prefix of these two is a prefix of all
    shared = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: first.rfind("/", 0, shared) + 1]


def directories_of(path: str, common: str) -> int:
    """Return how many directories of a path are below the root of the traced file system.

    A trace does not state that root.  It is assumed to be the parent of `common`, the common directory of all paths
    (`common_folder`).
    """
    return path.rstrip("/").count("/", len(common)) + (len(common) > 1)
