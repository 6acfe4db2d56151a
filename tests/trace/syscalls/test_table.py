"""The table of system calls beside the kernel's own lists, and beside the importers."""

import re
from pathlib import Path

import pytest

from scmsim.trace.formats.tracers import _perf_calls
from scmsim.trace.syscalls import from_numbers, handlers, table

LISTS = Path(__file__).parents[2] / "data" / "syscalls"
HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "i386": "/usr/include/x86_64-linux-gnu/asm/unistd_32.h",
}


def entries(path: Path) -> dict[str, int]:
    """Return name -> number of a list of the kernel: plain names, or a header."""
    text = path.read_text()
    if path.suffix == ".h":
        return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", text)}
    return {name: int(number) for name, number in (line.split() for line in text.splitlines())}


@pytest.mark.parametrize("arch", table.ARCHITECTURES)
def test_every_call_of_the_kernel_is_in_the_table_with_its_number(arch: str) -> None:
    lists = [LISTS / f"{arch}.txt", *filter(Path.exists, map(Path, [HEADERS[arch]] if arch in HEADERS else []))]
    for path in lists:
        found = entries(path)
        known = {name: table.calls()[name].numbers[arch] for name in found if name in table.calls()}
        if path.suffix == ".txt":
            assert known == found and len(found) > 300
        else:  # of another kernel: it may have later calls
            assert known.items() <= found.items() and len(known) > 300


def test_what_calls_do_has_known_words() -> None:
    for name, call in table.calls().items():
        assert call.does <= set(table.DOES) and call.does, name
        assert call.does == {"none"} or "none" not in call.does, name
    for arch in table.ARCHITECTURES:
        numbers = [call.numbers[arch] for call in table.calls().values() if call.numbers[arch] >= 0]
        assert len(numbers) == len(set(numbers)), arch


def test_what_the_importers_take_is_in_the_table() -> None:
    own = {"file_size", "page_fault"}  # lines that captures write
    aliases = {"llseek"}  # a name of old straces
    handled = set(handlers.SPECS) - own - aliases
    assert handled <= set(table.calls()) and set(_perf_calls.CALLS) <= set(table.calls())
    assert not [name for name in handled if table.does(name) == {"none"}]
    rows = table.with_any("row", "position", "descriptor", "place", "process", "attribute") - table.with_any("blind")
    without = {"bpf", "seccomp", "socketcall", "socket_subcall", "readdir", "oldstat", "oldlstat", "oldfstat"}
    assert not [name for name in rows - handled - without if "attribute" not in table.calls()[name].does]
    assert set(table.calls()) >= from_numbers.NEEDS_MEMORY


def test_a_number_in_place_of_a_name() -> None:
    assert table.known_as("syscall_0x14e") == "rseq" and table.known_as("syscall_435") == "clone3"
    assert table.known_as("syscall_0x999") == "syscall_0x999" and table.does("syscall_0x999") is None
    assert table.does("frobnicate") is None and table.does("futex") == {"none"}


def test_names_of_old_straces_and_of_other_machines_are_harmless() -> None:
    names = (
        "_exit send recv set_tls get_tls cacheflush ipc_subcall old_select old_getrlimit wait3 setpgrp sysmips prlimit"
    )
    assert all(table.does(name) == {"none"} for name in names.split())
    assert table.does("old_mmap") == table.does("mmap") and table.does("pread") == table.does("pread64")
