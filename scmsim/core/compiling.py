"""Who is told that numba compiles: nobody, or the command line, since a first replay may take half a minute."""

import warnings


class Watcher:
    """Silent about compiling, as a library is."""

    def begins(self, module: str) -> None:
        """The compiling of a function of `module` begins; what it calls is compiled before it ends."""

    def ends(self) -> None:
        """The compiling of the function that began last has ended, or failed."""

    def not_kept(self, folder: str, why: str) -> None:
        """Compiled functions cannot be kept in `folder`; called once a process."""
        warnings.warn(not_kept(folder, why), stacklevel=2)


def not_kept(folder: str, why: str) -> str:
    """The sentence for it."""
    return (
        f"compiled models are not kept, so every run compiles them: cannot use {folder!r} ({why}); "
        "name a writable folder of yours in XDG_CACHE_HOME"
    )


watcher = Watcher()
