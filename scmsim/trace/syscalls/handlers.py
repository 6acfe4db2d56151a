"""List the calls that the importer of strace knows: their patterns and handlers, and the calls that are only counted."""

import re
from typing import Any, NamedTuple

from scmsim.trace.syscalls import asynchronous, data, memory, namespaces, paths, raw, space, table
from scmsim.trace.syscalls.importer import NO_MODEL, NOT_A_FILE_OPERATION


class Spec(NamedTuple):
    """A call's pattern, the group of its result, its handler, and the group of the path that ENOENT refers to."""

    match: Any
    result: int
    handler: Any
    path: int | None
    raw_first: bool  # numbers in place of flags are decoded before the pattern is tried


def _specs() -> dict[str, Spec]:
    out = {}
    modules: tuple[Any, ...] = (data, paths, memory, space, asynchronous, namespaces)
    for name, (pattern, handler) in ((name, call) for module in modules for name, call in module.CALLS.items()):
        compiled = re.compile(pattern)
        path = 3 if pattern.startswith(paths.AT) else 1 if pattern.startswith(paths.PATH) else None
        if name.startswith(("rename", "link", "symlink")):
            path = None  # ENOENT may mean the other path
        out[name] = Spec(compiled.match, compiled.groupindex["result"], handler, path, name in raw.FIRST)
    return out


SPECS = _specs()
# calls that a recording for this importer needs; messages are too frequent, and -y names the descriptors that they bring
CALLS = tuple(
    dict.fromkeys(
        ("exit", "exit_group", *table.with_any("blind"), *(set(SPECS) - {"recvmsg", "recvmmsg", "recvmmsg_time64"}))
    )
)

ENDS = ("exit", "_exit", "exit_group")
# calls that are only counted, and the reason why they make no row
COUNTED = {
    name: NO_MODEL if name in SPECS else NOT_A_FILE_OPERATION
    for name, call in table.calls().items()
    if (SPECS[name].handler is paths.no_model if name in SPECS else "blind" not in call.does and name not in ENDS)
}
