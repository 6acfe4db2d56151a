"""A number of programs in a number of forms, and what came out."""

import random
import time
import traceback
from collections import Counter

from tests.programs.agent import Stuck
from tests.programs.draw import Draw, Line
from tests.programs.forms import Form, mixed
from tests.programs.oracle import Verdict, compare, judge
from tests.programs.program import Place, Ran, run, shown
from tests.programs.shrink import smaller

WORDS = ("equal", "said so", "exit code 4", "silent wrong", "refused", "crashed", "stuck")


class Campaign:
    """Runs programs; `failures` has (form, kind) -> texts of those that were silently wrong."""

    lines, shrink, keep = 30, True, 1
    kinds: tuple[str, ...] = ()

    def __init__(self, seed: int, forms: list[Form], per_program: int, mix: bool) -> None:
        self.seed, self.per_program, self.mix = seed, per_program, mix
        self.absent = {form.name: why for form in forms if (why := form.why_not())}
        self.forms = [form for form in forms if form.name not in self.absent]
        self.counts: dict[str, Counter[str]] = {}
        self.failures: dict[tuple[str, str], list[str]] = {}
        self.programs, self.seconds = 0, 0.0

    def work(self, programs: int, seconds: float = float("inf")) -> None:
        """Run so many programs, or for so long."""
        start = time.monotonic()
        with Place() as place:
            for number in range(programs):
                if time.monotonic() - start > seconds:
                    break
                self.programs += 1
                self.one(place, f"{self.seed}:{number}")
        self.seconds = time.monotonic() - start

    def one(self, place: Place, seed: str) -> None:
        """Run one program in some forms; the first run draws its script."""
        draw = random.Random(f"forms {seed}")
        forms = draw.sample(self.forms, min(self.per_program, len(self.forms)))
        if self.mix:
            forms.append(mixed(seed))
        script: list[Line] | None = None
        self._known: set[str] = set()
        for form in forms:
            try:
                drawn = Draw(seed, self.kinds) if script is None else None
                ran = _traced(place, form, script, drawn, self.lines)
            except Stuck as error:
                self._count(form, "stuck")
                print(f"--- {form.name}, seed {seed}: stuck: {error}", flush=True)
                continue
            script = script or ran.script
            self._note(place, form, seed, ran, _judged(place, form, ran))

    def _count(self, form: Form, word: str) -> None:
        self.counts.setdefault(form.name.partition(":")[0], Counter())[word] += 1

    def _note(self, place: Place, form: Form, seed: str, ran: Ran, outcome: "Verdict | str") -> None:
        word = outcome.word if isinstance(outcome, Verdict) else outcome.partition(":")[0]
        self._count(form, word)
        kind = outcome.kind if isinstance(outcome, Verdict) else outcome
        if word not in ("silent wrong", "exit code 4", "crashed", "refused"):
            return
        if kind in self._known:  # in another form of the same program
            self.failures.setdefault((form.name.partition(":")[0], kind), [])
            return
        self._known.add(kind)
        kept = self.failures.setdefault((form.name.partition(":")[0], kind), [])
        if len(kept) >= self.keep:
            return
        kept.append("")
        if self.shrink and word != "refused":
            ran, outcome = _shrunk(place, form, ran, outcome, kind)
        lines = (outcome.wrong or outcome.lost)[:3] if isinstance(outcome, Verdict) else [outcome]
        script = shown(ran.script, ran.results) + "\n" if word != "refused" else ""
        kept[-1] = text = f"--- {form.name}, seed {seed}\n{script}    " + "\n    ".join(lines)
        print(text, flush=True)

    def table(self) -> str:
        """Return the outcomes by form."""
        width = max([len(name) for name in self.counts] + [8])
        out = [f"{'form':{width}}" + "".join(f"{word:>14}" for word in WORDS)]
        for name in sorted(self.counts):
            out.append(f"{name:{width}}" + "".join(f"{self.counts[name][word]:>14}" for word in WORDS))
        total = sum(self.counts.values(), Counter())
        out.append(f"{'all':{width}}" + "".join(f"{total[word]:>14}" for word in WORDS))
        out += [f"{name}: not run: {why}" for name, why in self.absent.items()]
        return "\n".join([*out, f"{self.programs} programs, {total.total()} traces, {self.seconds:.0f} s"])


def _traced(place: Place, form: Form, script: list[Line] | None, draw: Draw | None, lines: int) -> Ran:
    popen = form.popen(place)
    try:
        return run(place, form.command(place), script, draw, lines, **popen)
    finally:
        popen["stderr"].close()


def _judged(place: Place, form: Form, ran: Ran) -> "Verdict | str":
    """Return the verdict, or why there is none."""
    from scmsim.core.errors import UsageError

    try:
        if form.tracer == "capture":
            return compare(ran, place.out + ".parquet", False, form.named)
        return judge(ran, form.text(place), place.out + ".parquet", form.named)
    except UsageError as error:
        return f"refused: {str(error).replace(place.home, '')[:100]}"
    except Exception as error:
        return f"crashed: {type(error).__name__} {error} {traceback.extract_tb(error.__traceback__)[-1]}"


def _shrunk(place: Place, form: Form, ran: Ran, outcome: "Verdict | str", kind: str) -> "tuple[Ran, Verdict | str]":
    best = ran, outcome

    def fails(script: list[Line]) -> bool:
        nonlocal best
        try:
            again = _traced(place, form, script, None, 0)
        except Stuck:
            return False
        verdict = _judged(place, form, again)
        same = verdict.kind == kind if isinstance(verdict, Verdict) else verdict == kind
        if same:
            best = again, verdict
        return same

    smaller(ran.script, fails)
    return best
