"""Tell the user how to install the optional packages (extras), from a checkout or for an installed wheel."""

import importlib.metadata
import pathlib
import re

_ROOT = pathlib.Path(__file__).parents[2]


def install(extra: str) -> str:
    """Return the end of a sentence that states the pip command to install an extra, for a checkout or a wheel."""
    if (_ROOT / "pyproject.toml").is_file():
        return f"in the checkout with: pip install -e '.[{extra}]'"
    return f"with: pip install {' '.join(requirements(extra))}"


def requirements(extra: str) -> list[str]:
    """Return the names of an extra's packages, as the installed distribution lists them."""
    try:
        listed = importlib.metadata.requires("scmsim") or []
    except importlib.metadata.PackageNotFoundError:
        listed = []
    found = [re.match(r"[\w.-]+", line) for line in listed if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", line)]
    return [match[0] for match in found if match] or [f"'scmsim[{extra}]'"]
