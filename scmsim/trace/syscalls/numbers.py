"""Map numbers of the system calls that matter for files to names, by machine: perf prints numbers, strace names."""

from scmsim.core.errors import EnvironmentProblem
from scmsim.trace.syscalls import table

# name in uname -m -> name in table.ARCHITECTURES
_TABLES = {"x86_64": "x86_64", "aarch64": "arm64", "riscv64": "riscv64"}
_ENDS = ("exit", "exit_group")


def names(machine: str) -> dict[int, str]:
    """Return number -> name of the calls on a machine; raise EnvironmentProblem for a machine without a table."""
    if machine not in _TABLES:
        known = ", ".join(_TABLES)
        raise EnvironmentProblem(f"no table of system calls for {machine!r}, only for {known}; use strace")
    every = table.by_number(_TABLES[machine])
    return {number: name for number, name in every.items() if "none" not in table.calls()[name].does or name in _ENDS}
