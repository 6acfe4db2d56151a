"""Replace names by keyed hashes, so that a trace can be published and still replays to the same counts.

Unchanged: the depth of each path, the equality of names, the length of a name in bytes (file systems store it) and
common extensions.  The key is random and never stored, so nobody can test names against the hashes.
"""

import hashlib
import hmac
import re
import secrets
from typing import Any

_COMMON = frozenset(
    "a awk bak bin bz2 c cc cfg conf cpp css csv d dat data db dll f90 gif go gz h hpp htm html ini ipynb java jpg js json "
    "la lock log lua m4 md o old orig par parquet pack patch pdf php pid pl png po py pyc rb rpm rs rst s sh so sql "
    "sqlite sst svg swp tar tex tmp toml ts txt wal whl xml xz yaml yml zip zst idx rev journal shm".split()
)
_SUFFIXES = re.compile(r"(?:\.[A-Za-z0-9]{1,8}){0,2}(?:-wal|-journal|-shm)?\Z")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_QUOTED = re.compile(r"(['\"])/.*\1")  # a quoted path in a line of the header
_NAMES = ("command", "program", "source")
_SENTENCES = ("blind_spots", "notes")


class Anonymizer:
    """Replaces names by hashes; one Anonymizer gives equal names equal hashes."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, str] = {}

    def path(self, path: str) -> str:
        """Return a path with every component replaced."""
        return "/".join(self._component(part) for part in path.split("/"))

    def header(self, header: dict[str, Any]) -> dict[str, Any]:
        """Return a header without the command, program, source and bad lines, and with hashes for quoted paths."""
        out = {name: value for name, value in header.items() if name not in _NAMES}
        out["anonymized"] = "names are keyed hashes; kept: depth, equality, length in bytes, common extensions"
        if out.get("under"):
            out["under"] = self.path(out["under"])
        for name in _SENTENCES:
            if name in out:
                out[name] = [_QUOTED.sub(self._quoted, text) for text in out[name]]
        if "bad_lines" in out:
            out["bad_lines"] = {"count": out["bad_lines"]["count"], "first": []}
        return out

    def _quoted(self, match: re.Match[str]) -> str:
        return f"{match[1]}{self.path(match[0][1:-1])}{match[1]}"

    def _component(self, name: str) -> str:
        if name in ("", ".", ".."):
            return name
        if name not in self._known:
            suffix = _suffix(name)
            stem = name.removesuffix(suffix)
            self._known[name] = self._hash(name, len(stem.encode())) + suffix
        return self._known[name]

    def _hash(self, name: str, length: int) -> str:
        digest = b""
        while len(digest) < length:
            block = len(digest).to_bytes(4, "big") + name.encode("utf-8", "surrogateescape")
            digest += hmac.new(self._key, block, hashlib.sha256).digest()
        return "".join(_ALPHABET[byte & 31] for byte in digest[:length])


def _suffix(name: str) -> str:
    """Return the last two extensions (.tar.gz) or the last one of a name, if they are common; "" if not."""
    found = _SUFFIXES.search(name)
    text = found[0] if found else ""
    parts = [part for part in re.split(r"[.-]", text) if part]
    if text == name or not parts:
        return ""
    if all(part.lower() in _COMMON for part in parts):
        return text
    last = re.search(r"[.-][A-Za-z0-9]+\Z", text)
    return last[0] if last and parts[-1].lower() in _COMMON else ""
