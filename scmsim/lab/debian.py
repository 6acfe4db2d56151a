"""Download Debian's kernel packages from the suites of its mirror, through apt with separate lists.

Nothing is installed, and this machine's own apt sources and lists stay unchanged.  apt verifies Debian's signatures.
"""

import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.lab import cache

MIRROR, SECURITY = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = (
    (MIRROR, "bookworm"),
    (SECURITY, "bookworm-security"),
    (MIRROR, "bookworm-backports"),
    (MIRROR, "trixie"),
    (SECURITY, "trixie-security"),
    (MIRROR, "trixie-backports"),
)
OLD_SUITES = ((MIRROR, "bullseye"), (SECURITY, "bullseye-security"))  # out of support: used only for kernels before 6
_FLAVOUR = "cloud-amd64"  # the smallest kernel flavour that has persistent memory, ext4 and XFS
_RELEASE = re.compile(r"\d+(\.\d+)*([.+~-][0-9A-Za-z.+~-]*)?")


def releases(wanted: str) -> list[str]:
    """Return the versions in a text separated by commas; raises UsageError for a word that is not a version."""
    found = [word.strip() for word in wanted.split(",")]
    for word in found:
        if len(word) > 80 or not _RELEASE.fullmatch(word):
            raise UsageError(f"{word[:80]!r} is not a kernel version; write versions like 6.1,6.12")
    return found


def matches(wanted: str, release: str) -> bool:
    """Return whether a release is the wanted version or of its series: 6.1 matches 6.1.0-56-cloud-amd64, but not 6.12."""
    return release == wanted or re.match(re.escape(wanted) + r"[.+~-]", release) is not None


def order(release: str) -> list[int]:
    """Return a sort key of versions: 6.1.0-9 before 6.1.0-56."""
    return [int(digits) for digits in re.findall(r"\d+", release)]


def newest(packages: Sequence[str], wanted: str) -> str:
    """Return the newest package of a series; raises EnvironmentProblem if the suites have none."""
    names = [name.removeprefix("linux-image-") for name in packages if name.startswith("linux-image-")]
    # A meta-package (6.1-cloud-amd64) has no third number, and contains no kernel.
    every = [name for name in names if re.match(r"\d+\.\d+\.\d", name) and name.endswith(_FLAVOUR)]
    found = [name for name in every if matches(wanted, name)]
    if not found:
        series = sorted({tuple(order(name)[:2]) for name in every})
        raise EnvironmentProblem(
            f"Debian's suites have no kernel {wanted!r}, but {', '.join('.'.join(map(str, each)) for each in series) or 'none'}; "
            "give another kernel as a package: --kernel FILE.deb"
        )
    return f"linux-image-{max(found, key=order)}"


def download(wanted: Sequence[str]) -> list[list[str]]:
    """Download the newest kernel of each series to the lab's folder; return each kernel's packages, linux-image first.

    Raises EnvironmentProblem if apt is missing, cannot reach the mirror, or has no such kernel.
    """
    if not shutil.which("apt-get"):
        raise EnvironmentProblem("no apt-get here; get a Debian kernel package and give it with --kernel FILE.deb")
    if not os.path.exists(KEYS):
        raise EnvironmentProblem(f"no {KEYS}; run: apt-get install debian-archive-keyring")
    place = _lists((*SUITES, *OLD_SUITES) if any(order(each)[0] < 6 for each in wanted) else SUITES)
    _apt(place, "apt-get", "update", "-q")
    known = _apt(place, "apt-cache", "pkgnames", "linux-").split()
    kernels = [_with_parts(newest(known, each), known) for each in wanted]
    _apt(place, "apt-get", "download", "-q", *(name for packages in kernels for name in packages))
    return [[str(sorted(place.parent.glob(f"{name}_*.deb"))[-1]) for name in packages] for packages in kernels]


def _with_parts(package: str, known: Sequence[str]) -> list[str]:
    """Return the package and the further packages of its kernel, which Debian splits since Linux 7."""
    release = package.removeprefix("linux-image-")
    parts = (f"linux-{part}-{release}" for part in ("base", "binary", "modules"))
    return [package, *(name for name in parts if name in known)]


def _lists(suites: Sequence[tuple[str, str]]) -> pathlib.Path:
    """Return the lab's folder for apt, with sources and configuration; create it if it is missing."""
    place = cache.folder() / "apt"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True, exist_ok=True)
    sources = "".join(f"deb [arch=amd64 signed-by={KEYS}] {mirror} {suite} main\n" for mirror, suite in suites)
    (place / "sources.list").write_text(sources, encoding="utf-8")
    settings = {
        "Dir::State": place / "state", "Dir::State::status": "/dev/null", "Dir::Cache": place / "cache",
        "Dir::Etc::sourcelist": place / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null", "Dir::Etc::preferencesparts": "/dev/null",
        "Acquire::Languages": "none", "APT::Sandbox::User": "root",
    }  # fmt: skip
    (place / "apt.conf").write_text("".join(f'{k} "{v}";\n' for k, v in settings.items()), encoding="utf-8")
    return place


def _apt(place: pathlib.Path, *words: str) -> str:
    """Run one of apt's programs and return its output; its messages go to this process's standard error."""
    environment = {
        **os.environ,
        "APT_CONFIG": str(place / "apt.conf"),
        "LC_ALL": "C",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    options = ["-o", f"Dir::Etc::sourcelist={place / 'sources.list'}", "-o", "Dir::Etc::sourceparts=/dev/null"]
    command = [words[0], *options, *words[1:]]
    try:
        done = subprocess.run(
            command,
            cwd=place.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1800,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"{' '.join(words)!r} failed: {str(error).lower()}") from None
    said = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W: Failed"))]
    if done.returncode or (words[1] == "update" and said):
        last = said[0][:200] if said else f"exit status {done.returncode}"
        raise EnvironmentProblem(
            f"{' '.join(words[:2])!r} failed: {last}; is {MIRROR} reachable, and the disk not full?"
        )
    return done.stdout
