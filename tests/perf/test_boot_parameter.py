"""Check the boot parameter that makes a DAX device of RAM, and when `scmsim perf setup` shows it."""

from pathlib import Path

import pytest

from scmsim.core.errors import UsageError
from scmsim.perf import setup
from scmsim.perf.setup import Request
from tests.perf.pretended_machine import pretended

THESIS_RAM = {
    "/proc/iomem": "00001000-0009ffff : System RAM\n100000000-103fffffff : System RAM\n  104000000-1 : Kernel"
}


@pytest.mark.parametrize(
    ("size", "start", "parameter"),
    [
        (32 << 30, None, "memmap=32G!33G"),
        (None, None, "memmap=30G!35G"),
        (32 << 30, 8 << 30, "memmap=32G!8G"),
        (2 << 20, 6 << 30, "memmap=2M!6G"),
    ],
)
def test_the_boot_parameter(tmp_path: Path, size: int | None, start: int | None, parameter: str) -> None:
    """RAM of 64 GiB whose largest range is 4 GiB to 65 GiB."""
    here, _ = pretended(tmp_path, THESIS_RAM)
    assert setup.boot_parameter(here, size, start) == parameter


@pytest.mark.parametrize(
    ("size", "start", "message"),
    [
        (
            32 << 30,
            52 << 30,
            "memmap=32G!52G does not lie in RAM, whose largest range is 4GiB to 65GiB",
        ),  # the thesis' own
        (80 << 30, None, "memmap=80G does not lie in RAM"),
        (32 << 30, 0, "memmap=32G!0G does not lie in RAM"),
        (1 << 20, None, "must be a positive multiple of 2 MiB"),
        (0, None, "must be a positive multiple of 2 MiB"),
        (1 << 30, 4097, "must be a positive multiple of 2 MiB"),
    ],
)
def test_a_region_that_does_not_fit_is_refused(tmp_path: Path, size: int, start: int | None, message: str) -> None:
    here, _ = pretended(tmp_path, THESIS_RAM)
    with pytest.raises(UsageError, match=message):
        setup.boot_parameter(here, size, start)


def test_boot_steps_only_where_there_is_no_device(tmp_path: Path) -> None:
    hidden = {"/proc/iomem": "00000000-00000000 : System RAM"}
    here, _ = pretended(tmp_path, hidden)
    assert setup.boot_steps(here, Request()) == []
    lines = setup.boot_steps(here, Request(device="/dev/pmem1"))
    assert any("memmap=SIZE!START" in line for line in lines) and lines[-1] == "reboot"
    assert "memmap=4G!START" in "\n".join(setup.boot_steps(here, Request(device="/dev/pmem1", size=4 << 30)))
