"""Makes a failing script smaller."""

from collections.abc import Callable

from tests.programs.draw import Line


def smaller(script: list[Line], fails: Callable[[list[Line]], bool], tries: int = 150) -> list[Line]:
    """Return a script that still fails and from which no single line can be taken (as far as `tries` runs show).

    The first line stays: it says where the program is.
    """
    step = max(len(script) // 2, 1)
    while tries > 0:
        at, changed = 1, False
        while at < len(script) and tries > 0:
            without = script[:at] + script[at + step :]
            tries -= 1
            if without and fails(without):
                script, changed = without, True
            else:
                at += step
        if step == 1 and not changed:
            break
        step = max(step // 2, 1)
    return script
