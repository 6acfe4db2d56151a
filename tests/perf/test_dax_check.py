"""A label that promises direct access or NOVA is held against the mount that the directory lies on."""

import pathlib

import pytest

from scmsim.perf import dax_check
from scmsim.perf.machine import Machine
from scmsim.perf.matrix import Matrix, Target

MOUNTS = """/dev/vda1 / ext4 rw,relatime 0 0
/dev/pmem0 /mnt/pm ext4 rw,dax=always 0 0
/dev/pmem1 /mnt/pm/nova NOVA rw 0 0
"""


def told(tmp_path: pathlib.Path, dax: bool, *targets: tuple[str, str]) -> list[str]:
    for name, value in (("pmem0", 1), ("pmem1", 1), ("vda1", 0)):
        queue = tmp_path / "sys/class/block" / name / "queue"
        queue.mkdir(parents=True, exist_ok=True)
        (queue / "dax").write_text(f"{value}\n")
    (tmp_path / "proc/self").mkdir(parents=True, exist_ok=True)
    (tmp_path / "proc/self/mounts").write_text(MOUNTS)
    machine = Machine(tmp_path, dax=lambda folder: dax and folder.endswith("/mnt/pm"))
    matrix = Matrix(tuple(Target(*target) for target in targets), (1,), (1,), ("write",))
    described = dax_check.described(matrix, machine)
    assert described.keys() == {target.label for target in matrix.targets}
    return dax_check.warnings(matrix, machine)


def test_what_is_as_it_says_is_not_warned_of(tmp_path: pathlib.Path) -> None:
    right = ("ext4-dax", "/mnt/pm/x"), ("nova-cow", "/mnt/pm/nova/x"), ("ext4", "/home/x"), ("tmpfs", "/mnt/pm/t")
    assert told(tmp_path, True, *right) == []


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (("ext4-dax", "/mnt/pmx"), "ext4-dax is not measured with direct access: '/mnt/pmx' is ext4 (page cache)"),
        (("nova-cow", "/mnt/pm/x"), "nova-cow is not measured on NOVA: '/mnt/pm/x' is ext4"),
    ],
)
def test_what_is_not_is_warned_of(tmp_path: pathlib.Path, target: tuple[str, str], why: str) -> None:
    (found,) = told(tmp_path, True, target)
    assert found.startswith(why)


def test_a_fallback_to_the_page_cache_is_seen(tmp_path: pathlib.Path) -> None:
    (found,) = told(tmp_path, False, ("ext4-dax", "/mnt/pm/x"))
    assert "files are accessed through the page cache" in found
