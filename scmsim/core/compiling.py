"""Hooks around numba's compilation, which is silent in the library; the command line reports it, as it may take 30 s."""

import warnings


class Watcher:
    """Default hooks around compilation, for scmsim as a library: they report only a cache that cannot be written."""

    def begins(self, module: str) -> None:
        """Note that a function of `module` begins to compile; such calls nest, as compiling a function compiles its callees."""

    def ends(self) -> None:
        """Note that the innermost running compilation has ended or failed."""

    def not_kept(self, folder: str, why: str) -> None:
        """Warn that compiled functions cannot be kept in `folder`; called once per process."""
        warnings.warn(not_kept(folder, why), stacklevel=2)


def not_kept(folder: str, why: str) -> str:
    """Return the text of the warning that compiled functions cannot be cached in `folder`."""
    return (
        f"compiled models are not kept, so every run compiles them: cannot use {folder!r} ({why}); "
        "name a writable folder of yours in XDG_CACHE_HOME"
    )


watcher = Watcher()
