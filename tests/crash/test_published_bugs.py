"""The card of published bugs: each that the model finds is found where it is on, and not where it is off."""

import pathlib
import tomllib

import pytest

from scmsim import crash
from scmsim.core.records import FLUSH, NTSTORE, STORE
from scmsim.fs.recovery.observe import Event
from tests.crash.test_crash import without
from tests.fs import drive

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "validation" / "published-bugs.md"
BUGS = tomllib.loads((HERE / "published_bugs.toml").read_text(encoding="utf-8"))
VERDICTS = ("found", "fixed", "outside")
CODES = {"store": STORE, "flush": FLUSH}


def written_back(site):
    """Return a change of events that writes back what each store of a mechanism stored."""

    def change(events):
        for event in events:
            yield event
            if event.site == site and event.code in (STORE, NTSTORE):
                yield Event(FLUSH, site, event.addr, event.length, 0)

    return lambda events: list(change(events))


def report(bug, changed):
    """Check a bug's calls, with the model as it is or `changed`."""
    calls = changed.get("calls", bug["calls"])
    paths = ["/", *dict.fromkeys(path for _, path, *_ in calls)]
    rows = [(op, paths.index(path), offset, length) for op, path, offset, length in calls]
    side = drive.files(*[0, *[-1] * (len(paths) - 1)], dirs=[0], names=paths)
    change = None
    if "drop" in changed:
        change = without(CODES[changed["drop"][0]], changed["drop"][1])
    elif "written_back" in changed:
        change = written_back(changed["written_back"])
    params = {"capacity": "256MiB", **changed.get("set", {})}
    return crash.check(drive.source(side, drive.ops(*rows)), bug["model"], params=params, change=change, samples=24)


def test_every_bug_has_a_verdict_with_a_reason():
    for name, bug in BUGS.items():
        assert bug["verdict"] in VERDICTS and bug["why"] and bug["sources"], name
        assert ("model" in bug) == (bug["verdict"] != "outside"), name
        assert bug["verdict"] != "found" or bug["blame"], name


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if "model" in bug])
def test_a_bug_is_found_where_it_is_on_and_not_where_it_is_off(name):
    bug = BUGS[name]
    assert ("on" in bug) != ("off" in bug), "one of the two is the model as it is"
    on, off = report(bug, bug.get("on", {})), report(bug, bug.get("off", {}))
    assert off.failures == []
    (failure,) = on.failures
    assert failure.operation == len(bug["calls"]) - 1 - (bug["calls"][-1][0] == "fsync")
    assert bug.get("blame", "") in failure.blame


def test_the_page_has_every_bug_and_the_sums():
    text = PAGE.read_text(encoding="utf-8")
    for name, bug in BUGS.items():
        assert f"| {name} | {bug['tool']} | {bug['what']} | {bug['verdict']} | {bug['why']} |" in text, name
    for verdict in VERDICTS:
        assert f"| {verdict} | {sum(bug['verdict'] == verdict for bug in BUGS.values())} |" in text
