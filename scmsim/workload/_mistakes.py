"""Report all mistakes of a job file or a command line in one error."""

from scmsim.core.errors import UsageError

_SHOWN = 20  # maximum number of mistakes in one message


class Mistakes:
    """Mistakes found so far; each mistake is kept once."""

    def __init__(self, where: str) -> None:
        self.where, self.texts = where, list[str]()

    def add(self, error: UsageError | str) -> None:
        if str(error) not in self.texts:
            self.texts.append(str(error))

    def check(self) -> None:
        """Raise UsageError with all mistakes, one per line, if any mistake was added."""
        if len(self.texts) == 1:
            raise UsageError(self.texts[0])
        if self.texts:
            more = [f"... and {len(self.texts) - _SHOWN} more"] * (len(self.texts) > _SHOWN)
            lines = [f"{self.where}: {len(self.texts)} mistakes", *self.texts[:_SHOWN], *more]
            raise UsageError("\n".join(lines))
