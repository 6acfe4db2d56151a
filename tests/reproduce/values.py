"""What the models say of every published row, as it was: a change of a value has to be seen and to be meant.

    python -m tests.reproduce.values            # writes values.json anew; --quick: what --quick runs only

A change needs a line under "Results changed" in CHANGELOG.md, with its reason.
"""

import json
import pathlib
import sys

from scmsim.reproduce import Row, reproduce

FILE = pathlib.Path(__file__).with_suffix(".json")
Values = dict[str, dict[str, object]]


def values(rows: list[Row]) -> dict[str, object]:
    """Id -> [simulated, with the cost left out], as JSON has them, of the rows that were run."""
    found = {row.published.id: [row.answer.simulated, row.answer.with_cost] for row in rows}
    run: dict[str, object] = json.loads(json.dumps({name: pair for name, pair in found.items() if pair[0] is not None}))
    return run


def read() -> Values:
    """The file: `quick` as --quick runs them, `full` without it."""
    return json.loads(FILE.read_text())  # type: ignore[no-any-return]


def main() -> None:
    """Write the file."""
    found = read() if FILE.exists() else {}
    for name in ("quick",) if "--quick" in sys.argv else ("quick", "full"):
        found[name] = values(list(reproduce(quick=name == "quick", jobs=2)))
    lines = (
        f'"{name}": {{\n' + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found[name].items())
        for name in found
    )
    FILE.write_text("{\n" + "\n},\n".join(lines) + "\n}\n}\n")


if __name__ == "__main__":
    main()
