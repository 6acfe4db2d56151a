"""What each page-size policy says, by hand."""

import pytest

from scmsim.core import registry
from scmsim.pipeline import model_params

HUGE, GIB = 9, 1 << 30
ZONE = {"super_order": HUGE, "super_zone": 1}


@pytest.mark.parametrize(
    ("policy", "given", "rules"),
    [
        ("pages-4k", {}, {"order": 0}), ("pages-2m", {}, {"order": HUGE}), ("pages-1g", {}, {"order": 18}),
        ("virtual-superpages", {}, {"order": HUGE, "pieces": 1}), ("tps", {}, {"sizing": 1}),
        ("tps", {"sizing": "doubling"}, {"sizing": 2}), ("one-zone", {"threshold": "12KiB"}, {"threshold": 3, "super_order": HUGE}),
        ("two-zone", {"capacity": 8 * GIB}, {"threshold": 512, "boundary": 2 * GIB >> 12, **ZONE}),
        ("two-zone", {"threshold": "8KiB", "superpages": 0}, {"threshold": 2}),
        ("two-zone", {"capacity": 8 * GIB, "superpages": 99}, {"threshold": 512, "boundary": 40 * 512, **ZONE}),
        ("two-zone", {"capacity": GIB, "superpages": 100}, {"threshold": 512, "boundary": 512, **ZONE}),
        ("two-zone", {"capacity": GIB, "superpages": 101}, {"threshold": 512, "boundary": 512, **ZONE}),
        ("two-zone", {"capacity": GIB, "superpages": 1}, {"threshold": 512, "boundary": 506 * 512, **ZONE}),
    ],
)  # fmt: skip
def test_rules(policy, given, rules):
    assert registry.load("policy", policy).rules(model_params("policy", policy, given)) == rules
