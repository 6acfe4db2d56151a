"""Run programs in many forms of trace, and compare what scmsim makes of each with what the program did.

Run: python -m tests.programs --seed 1 --programs 200 [--forms best,-yy] [--seconds 60] [--lines 30]
Ends with 1 if a trace was read wrongly and nothing says so.
"""

import argparse
import os
import sys

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # the texts are short

from tests.programs.agent import missing  # noqa: E402
from tests.programs.campaign import Campaign  # noqa: E402
from tests.programs.draw import KINDS, SURE_KINDS  # noqa: E402
from tests.programs.forms import BY_NAME, SLOW, SURE_FORMS  # noqa: E402


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--lines", type=int, default=30, help="calls of a program")
    parser.add_argument("--forms", help="names of forms, separated by ';', or 'all'; see forms.py")
    parser.add_argument("--per-program", type=int, default=4, help="forms in which each program runs")
    parser.add_argument("--kinds", default="", help="kinds of calls, separated by ',', or those to leave out after '-'")
    parser.add_argument("--sure", action="store_true", help="only calls and forms that are known to be read right")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--failures", type=int, default=1, help="failures that are shown for each kind and form")
    options = parser.parse_args()
    if why := missing():
        print(f"skipped: {why}")
        return 0
    names = [name for name in BY_NAME if name not in SLOW] if options.forms is None else options.forms.split(";")
    names = list(BY_NAME) if names == ["all"] else names
    if unknown := [name for name in names if name not in BY_NAME]:
        print(f"error: no form is named '{unknown[0]}'; there are: {'; '.join(BY_NAME)}", file=sys.stderr)
        return 2
    if options.sure:
        names = list(SURE_FORMS)
    campaign = Campaign(options.seed, [BY_NAME[name] for name in names], options.per_program, options.forms is None)
    campaign.lines, campaign.shrink, campaign.keep = options.lines, not options.no_shrink, options.failures
    named = set(options.kinds.lstrip("-").split(",")) - {""}
    campaign.kinds = tuple(sorted(set(KINDS) - named if options.kinds[:1] == "-" else named))
    if options.sure:
        campaign.kinds = SURE_KINDS
    campaign.work(options.programs, options.seconds)
    print(campaign.table())
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
