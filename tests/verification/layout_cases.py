"""Random histories on a real ext4 with DAX beside the reference of its layout: inode, size and extents of every file.

Run: python -m tests.verification.layout_cases [--kinds mixed,full] [--seeds 1:121:2] [--kernel 6.1] -o FOLDER

What the kernel did stays in FOLDER, so that the reference can be judged again without it.  20 histories share a guest, each on a
file system of its own; the guest has one CPU and commits its journal where a history has a sync or fsync, and never by time.  Needs
qemu-system-x86_64, e2fsprogs, gcc with static libraries, and a kernel of `scmsim lab setup`.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

from scmsim.core.atomic import whole
from scmsim.lab import initramfs, kernel
from tests.reference.ext4_layout.history import Replay, options_of
from tests.verification import layout_histories
from tests.verification.layout_histories import History

_EACH = 20
_LOW_MIB, _DEVICE_MIB, _MORE_MIB = (
    2048,
    4096,
    256,
)  # memory below 4 GiB, the device, and what makes up for its page structs
_SEED = "hash_seed=5c3d0000-0000-4000-8000-000000000002,lazy_itable_init=1,lazy_journal_init=1"
_MOUNT = "noinit_itable"
_NEVER = ",commit=10000"  # seconds between commits by time


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(layout_histories.KINDS))
    parser.add_argument("--seeds", default="1:121:2", help="FIRST:END:STEP")
    parser.add_argument("--kernel", help="a kept kernel's version, as `scmsim lab run --kernel` takes it")
    parser.add_argument("--cached", action="store_true", help="without DAX; each history ends with sync")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    chosen = kernel.named(options.kernel) if options.kernel else kernel.find()
    seeds = range(*map(int, options.seeds.split(":")))
    print("| kind | histories | all equal | files | equal |\n|---|---|---|---|---|")
    for kind in options.kinds.split(","):
        histories = {seed: _history(kind, seed, options.cached) for seed in seeds}
        missing = {seed: each for seed, each in histories.items() if not _stored(options.output, kind, seed).exists()}
        _measure(kind, missing, chosen, options.output)
        major, minor = map(int, chosen.release.split(".")[:2])
        told = [_judge(kind, seed, each, options.output, (major, minor)) for seed, each in histories.items()]
        files, equal = sum(each[0] for each in told), sum(each[1] for each in told)
        print(f"| {kind} | {len(told)} | {sum(a == b for a, b in told)} | {files} | {equal} |", flush=True)


def _history(kind: str, seed: int, cached: bool) -> History:
    history = layout_histories.make(kind, seed)
    if cached:
        history.cached = True
        history.add("sync")
    return history


def _stored(folder: pathlib.Path, kind: str, seed: int) -> pathlib.Path:
    return folder / f"{kind}-{seed}.json"


def _judge(kind: str, seed: int, history: History, folder: pathlib.Path, release: tuple[int, int]) -> tuple[int, int]:
    """Return how many files a history leaves, and for how many the reference of a release of Linux is right."""
    real = json.loads(_stored(folder, kind, seed).read_text())
    try:
        replay = Replay(options_of(history.words, history.mib), history.cached, release)
        replay.run(history.lines)
        found = {path: replay.show(path) for path in history.paths}
    except Exception as error:  # a wrong model may do anything
        print(f"{kind} {seed}: {error!r}")
        return len(history.paths), 0
    # without a journal, inode numbers depend on the clock
    first = 1 if "^has_journal" in " ".join(history.words) else 0
    wrong = [
        path
        for path in history.paths
        if json.loads(json.dumps(found[path] or []))[first:] != real.get(path, [])[first:]
    ]
    if wrong:
        print(f"{kind} {seed}: {len(wrong)} of {len(history.paths)} files differ: {' '.join(wrong[:5])}")
    return len(history.paths), len(history.paths) - len(wrong)


def _measure(kind: str, histories: dict[int, History], chosen: kernel.Kernel, folder: pathlib.Path) -> None:
    seeds = list(histories)
    for at in range(0, len(seeds), _EACH):
        part = {str(seed): histories[seed] for seed in seeds[at : at + _EACH]}
        text = _boot(chosen, "".join(_job(name, history) for name, history in part.items()))
        name = ""
        found: dict[str, dict[str, list]] = {}
        for word, *rest in (line.split() for line in text.splitlines() if line.strip()):
            if word == "history":
                name = rest[0]
            elif word == "show":
                extents = [list(map(int, each.split(","))) for each in rest[3:]]
                found.setdefault(name, {})[rest[0]] = [int(rest[1]), int(rest[2]), extents]
        for name in part:
            with whole(_stored(folder, kind, int(name))) as draft:
                draft.write_text(json.dumps(found[name]))


def _job(name: str, history: History) -> str:
    """Return the lines that make a file system, run a history on it, and show its files."""
    words = [word if word != "-E" else "" for word in history.words]
    stripe = [history.words[i + 1] for i, word in enumerate(history.words) if word == "-E"]
    words = [word for word in words if word and word not in stripe]
    mkfs = [initramfs.tool("mke2fs"), "-q", "-F", "-t", "ext4", "-b", "4096", "-E", ",".join([_SEED, *stripe]), *words]
    mount = ("" if history.cached else "dax,") + _MOUNT + ("" if "^has_journal" in " ".join(words) else _NEVER)
    head = f"mkfs {name} {mount} {' '.join(mkfs)} /dev/pmem0 {history.mib * 256}"
    return "\n".join([head, *history.lines, *(f"show {path}" for path in history.paths)]) + "\n"


def _boot(chosen: kernel.Kernel, job: str) -> str:
    """Run a guest; return what it printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source = pathlib.Path(__file__).with_name("layout_guest.c")
        subprocess.run(["gcc", "-O1", "-static", "-o", folder / "guest", source], check=True)
        modules = kernel.module_files(chosen, (*kernel.PM_MODULES, "crc32c-intel", "ext4"))
        files = {"/init": initramfs.read(folder / "guest"), "/job": job.encode()}
        files |= {f"/modules.d/{module}.ko": content for module, content in modules.items()}
        files["/modules"] = "".join(f"/modules.d/{module}.ko\n" for module in modules).encode()
        tool = initramfs.with_libraries(initramfs.tool("mke2fs"))
        files |= {place: initramfs.read(path) for place, path in tool.items()}
        (folder / "initrd").write_bytes(initramfs.archive(files))
        subprocess.run(_command(chosen, folder), check=True, timeout=1800, stdin=subprocess.DEVNULL)
        text = (folder / "out").read_text()
        if not text.rstrip().splitlines()[-1:] or not text.rstrip().splitlines()[-1].startswith("done"):
            raise SystemExit(f"the guest failed: {text[-300:]}\n{(folder / 'console').read_text()[-2000:]}")
        return text


def _command(chosen: kernel.Kernel, folder: pathlib.Path) -> list[str]:
    memory = f"memmap={_DEVICE_MIB}M!4096M"
    return [
        "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-smp", "1",
        "-m", str(_LOW_MIB + _DEVICE_MIB + _MORE_MIB), "-machine", "q35", "-accel", "tcg", "-cpu", "max,la57=off",
        "-chardev", f"file,id=console,path={folder / 'console'}", "-serial", "chardev:console",
        "-chardev", f"file,id=out,path={folder / 'out'}", "-serial", "chardev:out",
        "-kernel", chosen.image, "-initrd", str(folder / "initrd"),
        "-append", f"console=ttyS0 quiet nokaslr {memory} init_on_alloc=0 panic=-1",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
