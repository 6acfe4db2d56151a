"""A few generated programs, so that the generator itself keeps working; `python -m tests.programs` runs more of them."""

import pytest

from tests.programs.agent import missing
from tests.programs.campaign import Campaign
from tests.programs.draw import SURE_KINDS
from tests.programs.forms import BY_NAME
from tests.programs.program import Place, run, shown

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"programs need cc and strace: {missing()}")
SCRIPT = [
    [0, "chdir", ["@"]],
    [0, "openat", [-100, "new", 0o102, 0o644]],
    [0, "write", [3, ["buf"], 100]],
    [0, "fork", []],
    [1, "write", [3, ["buf"], 50]],
    [0, "pread64", [3, ["buf"], 4096, 20]],
    [1, "exit", [0]],
    [0, "close", [3]],
]


def test_truth_of_a_script_that_was_worked_out_by_hand(tmp_path):
    with Place(str(tmp_path)) as place:
        form = BY_NAME["best"]
        popen = form.popen(place)
        with popen["stderr"]:
            ran = run(place, form.command(place), SCRIPT, **popen)
        new = next(number for number, file in enumerate(ran.truth.files) if file.path.endswith("/new"))
        assert ran.truth.files[new].first == -1 and ran.truth.files[new].final == 150
        assert ran.truth.events == [
            ("create", new, 0, 0),
            ("write", new, 0, 100),
            ("write", new, 100, 50),
            ("read", new, 20, 130),
            ("close", new, 0, 0),
        ]
        assert shown(ran.script, ran.results).splitlines()[2] == "0: write(3, ['buf'], 100) = 100"


def test_rows_of_generated_programs_are_what_the_programs_did():
    campaign = Campaign(1, [BY_NAME[name] for name in ("best", "plain", "-yy", "-ff, merged")], 1, mix=False)
    campaign.kinds = SURE_KINDS
    campaign.work(30)
    assert campaign.failures == {}, campaign.table()
    assert sum(count["equal"] for count in campaign.counts.values()) >= 15
