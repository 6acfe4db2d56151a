"""Check the lab's emulator: versions, what is missing, the arguments of each boot, and the plugin."""

import pytest
from click.testing import CliRunner

from scmsim.core.errors import EnvironmentProblem
from scmsim.lab import cache, machine, qemu, runner, tools


def program(folder, text):
    path = folder / qemu.PROGRAM
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo nothing", "the version of "),
        ("echo 'QEMU emulator version 4.1.0'", "no plugins"),
        ("echo 'QEMU emulator version 7.2.0'", "without plugins"),
    ],
)
def test_an_emulator_that_cannot_serve(tmp_path, text, said):
    with pytest.raises(EnvironmentProblem, match=said):
        qemu.find(str(program(tmp_path, text)))


@pytest.mark.parametrize(("version", "api"), [((7, 2, 22), 1), ((9, 0, 0), 2), ((9, 1, 2), 3), ((10, 0, 2), 4)])
def test_api_of_an_emulator(version, api):
    assert qemu.Qemu("q", version).api == api


def test_missing_emulator_leaves_with_3_and_one_line(monkeypatch, tmp_path):
    from scmsim.cli import main

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    qemu.find.cache_clear()
    try:
        done = CliRunner().invoke(main, ["lab", "check"], standalone_mode=False)
        assert done.return_value == 3 and "apt-get install" in done.output and "qemu-system-x86" in done.output
        ran = CliRunner().invoke(main, ["lab", "run", "smoke", "-o", str(tmp_path / "out")], standalone_mode=False)
        assert isinstance(ran.exception, EnvironmentProblem) and ran.exception.exit_code == 3
        assert "\n" not in str(ran.exception) and not (tmp_path / "out").exists()
    finally:
        qemu.find.cache_clear()


def test_command_for_what_is_missing():
    found = [tools.Finding("emulator", "", "qemu-system-x86"), tools.Finding("compiler", "", "gcc libc6-dev")]
    assert tools.command(found) == "apt-get install --no-install-recommends qemu-system-x86 gcc libc6-dev"
    assert tools.command([tools.Finding("kernel", "", "scmsim lab setup --apply")]) == ""


def test_memory_of_the_guest_in_its_file():
    low = qemu.LOW_BYTES
    addresses = {0: 0, low - 1: low - 1, qemu.HIGH: low, qemu.MAILBOX_AT: low + qemu.MAILBOX_AT - qemu.HIGH}
    assert {address: qemu.file_offset(address) for address in addresses} == addresses


def test_arguments_escape_commas():
    words = qemu.arguments(
        qemu.Qemu("q", (7, 2, 0)), image="k", initrd="i", ram="/t,mp/ram", console="c", plugin=["p", "out=a,b"],
        mailbox=128 << 20, erms=True,
    )  # fmt: skip
    assert words[-1] == "p,out=a,,b" and any("mem-path=/t,,mp/ram" in word for word in words)


def test_each_boot_has_a_seed_and_from_the_second_on_memory_in_random_order():
    def words(boot):
        return qemu.arguments(
            qemu.Qemu("q", (7, 2, 0)), image="k", initrd="i", ram="r", console="c", plugin=["p"], mailbox=128 << 20,
            erms=True, boot=boot,
        )  # fmt: skip

    def after(option, boot):
        return words(boot)[words(boot).index(option) + 1]

    assert [after("-seed", boot) for boot in (1, 2, 3)] == ["1", "2", "3"]
    assert ["page_alloc.shuffle=1" in after("-append", boot) for boot in (1, 2, 3)] == [False, True, True]


@pytest.mark.parametrize(("boots", "expected"), [(False, [1, 1]), (True, [1, 2])])
def test_repeats_are_other_boots_where_that_is_asked_for(monkeypatch, boots, expected):
    seen = []

    class Seen(Exception):
        pass

    def run(setting, *_):
        seen.append(setting.boot)
        raise Seen

    monkeypatch.setattr(machine, "run", run)
    setting = machine.Setting(qemu.Qemu("q", (7, 2, 0)), None, boots=boots)
    for repeat in (1, 2):
        with pytest.raises(Seen):
            runner._one(runner.Guest("tmpfs", repeat), None, setting, {"tmpfs": None}, None, None)
    assert seen == expected


def test_no_compiler_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "compiler", lambda: None)
    with pytest.raises(EnvironmentProblem, match="no C compiler"):
        cache.plugin(1)


def test_plugin_is_compiled_once(monkeypatch, tmp_path):
    if cache.compiler() is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = cache.plugin(1)
    stamp = first.stat().st_mtime_ns
    assert cache.plugin(1) == first and first.stat().st_mtime_ns == stamp
    assert cache.plugin(3) != first
