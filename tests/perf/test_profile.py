"""Profiles by the models' mechanisms: the maps, the rule of the innermost frame, the thesis' figures, and the command."""

import json
import pathlib
import shutil

import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.core import registry
from scmsim.core.errors import UnknownName
from scmsim.perf import profile
from scmsim.perf.machine import Machine
from scmsim.result import Result as Measured
from scmsim.result import Run, read

DATA = pathlib.Path(__file__).parents[1] / "data" / "perf"
MAPS = registry.names("sites")
needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None or Machine().paranoia() > 1,
    reason="perf is not installed, or may not count the kernel",
)

# Figures 32 to 34 of the thesis: percent of dTLB events by function while NOVA writes 24 GB in units of 1, 4 and 16 KB.
FIGURE_32 = {
    "curr_log_entry_invalid.isra.12.constp": 47.61,
    "nova_get_append_head": 13.71,
    "__memcpy": 6.09,
    "__copy_user_nocache": 5.72,
    "nova_cow_file_write": 4.11,
    "__memset": 2.06,
    "__radix_tree_lookup": 1.44,
    "percpu_down_read": 1.09,
    "_raw_spin_lock": 1.00,
    "mutex_lock": 0.98,
    "__fget_light": 0.96,
    "__srcu_read_lock": 0.89,
    "intel_idle": 0.88,
    "nova_reassign_file_tree": 0.80,
    "nova_free_blocks": 0.80,
    "nova_new_blocks": 0.79,
    "__kmalloc": 0.68,
    "lockref_get_not_zero": 0.66,
    "percpu_up_read": 0.58,
}
FIGURE_33 = {
    "nova_cow_file_write": 2.13,
    "nova_append_file_write_entry": 0.54,
    "nova_get_append_head": 10.90,
    "curr_log_entry_invalid.isra.12.const": 38.99,
    "__copy_user_nocache": 25.62,
    "__fsnotify_parent": 0.12,
}
FIGURE_34 = {
    "__copy_user_nocache": 70.70,
    "nova_cow_file_write": 1.50,
    "nova_append_file_write_entry": 0.14,
    "nova_get_append_head": 2.14,
    "curr_log_entry_invalid.isra.12.constprop.30": 6.64,
}


def script(*samples: tuple[int, list[str]], event: str = "dTLB-load-misses") -> str:
    """Text of perf script: (period, frames from the innermost) in the kernel; a frame ending in `*` is the program's."""
    lines = []
    for period, frames in samples:
        lines.append(f"file_write  7 13.000001: {period:10} {event}: ")
        for depth, frame in enumerate(frames):
            address, place = (
                (0x4000 + depth, "/bin/x") if frame.endswith("*") else (0xFFFFFFFF81000000, "[kernel.kallsyms]")
            )
            lines.append(f"\t{address:16x} {frame.rstrip('*')} ({place})")
        lines.append("")
    return "\n".join(lines) + "\n"


def shares(text: str, fs: str) -> dict[str, float]:
    found = profile.reduced(text, fs)
    (event,) = found.own
    return {site: round(found.share(event, site), 2) for site in found.own[event]}


def flat(figure: dict[str, float]) -> str:
    return script(*((round(100 * percent), [symbol]) for symbol, percent in figure.items()))


@pytest.mark.parametrize("name", MAPS)
def test_every_site_of_a_map_is_one_of_its_models(name: str) -> None:
    table = registry.literals("sites", name)
    for model in table["models"]:
        sites = registry.load("fs", model).SITES
        assert not [site for site in table["sites"] if site not in sites and not site.startswith("(")]
    assert table["source"]


@pytest.mark.parametrize("name", MAPS)
def test_no_function_stands_for_two_mechanisms(name: str) -> None:
    entries = [entry for each in registry.literals("sites", name)["sites"].values() for entry in each]
    assert len(entries) == len(set(entries))
    for entry in entries:
        assert all(profile.plain(symbol) == symbol and " " not in symbol for symbol in entry.split(" < "))


@pytest.mark.parametrize("model", registry.names("fs"))
def test_every_model_has_a_map(model: str) -> None:
    assert profile.map_for(model) in MAPS


def test_a_file_system_without_a_map_is_refused() -> None:
    with pytest.raises(
        UnknownName, match="no file system with a map of its functions named 'ext5'; did you mean 'ext4'"
    ):
        profile.map_for("ext5")


def test_the_log_scan_of_figures_32_to_34() -> None:
    for figure, scan, copy in ((FIGURE_32, 47.61, 5.72), (FIGURE_33, 38.99, 25.62), (FIGURE_34, 6.64, 70.70)):
        whole = sum(figure.values())
        found = shares(flat(figure), "nova-fast16")
        assert found["log scan"] == pytest.approx(100 * scan / whole, abs=0.02)
        assert found["data copy"] == pytest.approx(100 * copy / whole, abs=0.02)
    scans = [shares(flat(figure), "nova-fast16")["log scan"] for figure in (FIGURE_32, FIGURE_33, FIGURE_34)]
    assert scans == sorted(scans, reverse=True)  # the larger the unit, the fewer entries to scan


def test_the_call_graph_of_figure_24() -> None:
    """ext4-DAX of Linux 4.x: dax_do_io, the orphan list and the journal, by their callers."""
    path = ["ext4_ind_direct_IO", "ext4_direct_IO", "generic_file_direct_write", "vfs_write", "sys_write"]
    text = script(
        (4515, ["dax_do_io", *path]),
        (547, ["ext4_orphan_add", *path]),
        (547, ["ext4_orphan_del", *path]),
        (437, ["ext4_mark_inode_dirty", *path]),
        (420, ["__ext4_journal_start_sb", *path]),
        (284, ["__ext4_journal_stop", *path]),
        (48, ["mutex_unlock", "vfs_write", "sys_write"]),
        (1650, ["_IO_fwrite*"]),
    )
    found = profile.reduced(text, "ext4-dax").own["dTLB-load-misses"]
    assert found == {
        "mapping": 4515,
        "(program)": 1650,
        "orphan list": 1094,
        "journal handle": 704,
        "inode": 437,
        "syscall": 48,
    }


def test_the_innermost_named_frame_decides_and_a_caller_can_change_what_it_means() -> None:
    write = ["nova_append_file_write_entry", "do_nova_cow_file_write", "vfs_write"]
    text = script(
        (1, ["memset_erms", "nova_append_log_entry", *write]),
        (2, ["__copy_user_nocache", *write]),
        (4, ["__copy_user_nocache", "do_nova_cow_file_write", "vfs_write"]),
        (8, ["_raw_spin_lock", "nova_new_blocks.isra.0", "do_nova_cow_file_write"]),
        (16, ["scheduler_tick", "asm_sysvec_apic_timer_interrupt", "nova_new_blocks"]),
        (32, ["kthread"]),
        (64, ["main*"]),
    )
    assert profile.reduced(text, "nova-cow").own["dTLB-load-misses"] == {
        "(program)": 64,
        "(kernel, elsewhere)": 32,
        "(interrupts)": 16,
        "allocation": 8,
        "data copy": 4,
        "log append": 3,
    }


def test_a_real_profile_adds_up() -> None:
    found = profile.reduced((DATA / "script_callgraph.txt").read_text(), "ext4")
    for event, total in found.profile.events.items():
        assert sum(found.own[event].values()) == total
        assert sum(found.share(event, site) for site in found.own[event]) == pytest.approx(100)
    assert set().union(*found.own.values()) - {profile.PROGRAM, profile.ELSEWHERE}


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.main, ["perf", *map(str, args)])


def test_shares_beside_a_prediction(tmp_path: pathlib.Path) -> None:
    (tmp_path / "p.txt").write_text(flat(FIGURE_33))
    counts = {"log scan": 30, "data copy": 50, "journal": 20}
    sites = {site: {"dtlb_load_misses_walk_completed": count} for site, count in counts.items()}
    Measured({}, [Run("nova-fast16", sites=sites)]).write(tmp_path / "sim.json")
    against = ["--against", tmp_path / "sim.json", "--counter", "dtlb_load_misses_walk_completed"]
    arguments = ["profile", "--from", tmp_path / "p.txt", "--fs", "nova-fast16"]
    done = run(*arguments, *against, "-o", tmp_path / "out.json")
    assert done.exit_code == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["49.80", "%", "30.00", "%", "log", "scan"] in rows
    assert ["0.00", "%", "20.00", "%", "journal"] in rows
    stored = read(tmp_path / "out.json").runs[0]
    assert stored.sites["log scan"] == {"dtlb_load_misses": 3899}
    assert stored.groups["nova_cow_file_write"] == {"dtlb_load_misses": 213}
    done = run(*arguments, *against[:-1], "no_such")
    assert done.exit_code == 2 and "no counter by mechanism in that result named 'no_such'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["profile"], "give either a command after '--' or --from FILE"),
        (["profile", "--from", "/nowhere"], "cannot read '/nowhere'"),
        (["profile", "--fs", "nvoa", "--", "true"], "no file system with a map"),
        (["stat"], "missing argument"),
        (["stat", "--counters", "cycels", "--backend", "fake", "--", "true"], "did you mean 'cycles'"),
        (["stat", "-o", "x.txt", "--", "true"], "must end in .json"),
    ],
)
def test_bad_arguments(arguments: list[str], why: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2 and why in done.stderr


@needs_perf
def test_a_program_is_profiled(tmp_path: pathlib.Path) -> None:
    zeros = ["dd", "if=/dev/zero", f"of={tmp_path / 'f'}", "bs=4k", "count=20000"]
    done = run("profile", "-e", "cpu-clock", "--fs", "ext4", "--json", "--", *zeros)
    assert done.exit_code == 0, done.stderr
    found = Measured.from_json(done.stdout).runs[0]
    assert sum(counts["cpu_clock"] for counts in found.sites.values()) == found.counters["cpu_clock"] > 0
    assert found.params["command"].startswith("dd if=")


@needs_perf
def test_an_event_that_cannot_be_sampled_is_exit_3() -> None:
    done = run("profile", "-e", "no-such-event", "--", "true")
    assert done.exit_code == 3 and "perf does not know 'no-such-event' here" in done.stderr


@needs_perf
def test_a_program_is_counted_and_its_status_passed_on(tmp_path: pathlib.Path) -> None:
    # perf loses the status of a program that ends before perf waits for it (docs/guide/harness-run.md)
    program = ("sh", "-c", "sleep 0.2; exit 7")
    done = run("stat", "--backend", "software", "-r", "2", "-o", tmp_path / "x.json", "--json", "--", *program)
    assert done.exit_code == 7
    found = read(tmp_path / "x.json")
    assert [one.cell for one in found.runs] == [{"repeat": 1}, {"repeat": 2}] and found.runs[0].counters[
        "page_faults"
    ] > 0
    assert json.loads(done.stdout)["results"][0]["fs"] == "program"
    assert run("stat", "--backend", "software", "--", "/nowhere/x").exit_code == 127


def test_counts_of_a_program_are_shown_with_their_spread() -> None:
    done = run("stat", "--backend", "fake", "-r", "3", "--count", "split", "--", "anything")
    assert done.exit_code == 127  # it must exist even where nothing is run
    done = run("stat", "--backend", "fake", "-r", "3", "--", "true")
    assert done.exit_code == 0 and "+- " in done.stdout and "walk_cycles_percent_data" in done.stdout
    assert "core cycles while the thread was not halted" in done.stdout
    done = run("stat", "--backend", "fake", "--one-pass", "--", "true")
    assert "the program runs" not in done.stderr
