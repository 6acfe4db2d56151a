"""Names from files as they may be shown: a name may hold line ends and terminal commands, and a file is hostile."""


def printable(text: str, keep: str = "") -> str:
    r"""The text with every character that does not print as an escape (`\n`, `\x1b`); those in `keep` stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
