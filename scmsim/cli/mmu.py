"""`scmsim mmu`: simulate a machine's TLBs for a file of memory accesses."""

import json

import click

from scmsim.cache import OFF, SETTINGS
from scmsim.cli._accesses import Accesses
from scmsim.core.errors import UsageError

SUMMARY = "Count TLB misses and page walks of a file of memory accesses."


@click.command(
    "mmu",
    help=f"""{SUMMARY}

FILE has byte addresses (.npy, .u64), a trace of Valgrind's lackey (.lackey) or ChampSim (.champsim), or text of
pinatrace, drmemtrace's view tool, dinero, gem5 or perf script -F addr (.txt, .out, .din). All but .npy may end in .gz
or .xz. Page runs of the lab (.pages.npz) and Parquet of scmsim replay --accesses have their own page sizes. In a stored
block trace, an access is a 4 KiB page that a request touches, as if the device were mapped. --machine counts everything
that the MMU does; --l1 and --l2 only count the misses of one or two LRU arrays, which is fast.""",
)
@click.argument("file", type=click.Path())
@click.option(
    "--machine",
    help="Machine to simulate: a name (scmsim list machine), host (this machine) or a .toml file.  [default: i7-8700k]",
)
@click.option(
    "--l1", metavar="ENTRIESxWAYS", help="Count one LRU array for all accesses instead of a machine, e.g. 64x4."
)
@click.option("--l2", metavar="ENTRIESxWAYS", help="A second level after --l1, e.g. 1536x12.")
@click.option("--page", default="4KiB", show_default=True, help="Size of every page: a power of two, 4KiB to 1GiB.")
@click.option(
    "--contiguous",
    is_flag=True,
    help="Assume that neighbouring pages are contiguous in memory; some TLBs coalesce them.",
)
@click.option(
    "--caches",
    type=click.Choice(SETTINGS),
    default=OFF,
    help="Also count hits and misses of the data caches, without a prefetcher (on) or with one.  [default: off]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: file, machine, page, results.")
def command(
    file: str,
    machine: str | None,
    l1: str | None,
    l2: str | None,
    page: str,
    contiguous: bool,
    caches: str,
    as_json: bool,
) -> None:
    from scmsim import mmu
    from scmsim.mmu import accesses

    if machine and (l1 or l2):
        raise UsageError("--machine excludes --l1 and --l2; give either a machine or the sizes of arrays")
    if l2 and not l1:
        raise UsageError("--l2 needs --l1; give the first level too, e.g. --l1 64x4")
    if l1 and contiguous:
        raise UsageError("--contiguous has no meaning with --l1, whose arrays do not coalesce; use --machine")
    if l1 and caches != OFF:
        raise UsageError("--caches counts a machine's data caches; use --machine instead of --l1")
    requests = None if accesses.is_access_file(file) else _requests(file)
    if l1:
        addresses = accesses.loads(file) if requests is None else (part for _, part in requests.batches)
        counts = mmu.plain_misses(addresses, l1, l2, page)
    else:
        machine = machine or "i7-8700k"
        if requests is None:
            counts = mmu.simulate_file(file, machine, page, contiguous=contiguous)
        else:
            counts = mmu.simulate_accesses(requests.batches, machine, page, contiguous=contiguous)
    if caches != OFF:
        counts |= _caches(file, machine or "", caches)
    if requests:
        click.echo(requests.note(file, "'scmsim replay'"), err=True)
    how = {"l1": l1, "l2": l2, "page": page} if l1 else {"machine": machine, "page": page, "contiguous": contiguous}
    if as_json:
        click.echo(json.dumps({"file": file, **how, "results": [counts]}))
        return
    from scmsim.result.tables.counts import lru, tlb

    what = f"arrays {' '.join(filter(None, [l1, l2]))}" if l1 else f"machine {machine}"
    click.echo("\n".join([f"{what}, pages of {page}", *(lru(counts) if l1 else tlb(counts))]))


def _caches(file: str, machine: str, setting: str) -> dict[str, int]:
    """Return the counts of a machine's data caches for a file of addresses."""
    from scmsim import cache
    from scmsim.mmu import accesses, page_runs, presets

    if not accesses.is_access_file(file) or page_runs.is_page_runs(file):
        raise UsageError(f"--caches needs addresses of bytes, and {file!r} has pages only; leave --caches out")
    table = presets.read(machine)
    if accesses.is_table(file):
        return cache.simulate_events(
            ((events, setup) for events, setup, _ in accesses.table_events(file)), table, setting
        )
    return cache.simulate(accesses.read(file), table, setting)


def _requests(file: str) -> Accesses:
    """Return the requests of a stored block trace."""
    from scmsim.cli._accesses import REQUEST, of_file
    from scmsim.mmu import accesses

    if not file.endswith(".parquet"):
        raise accesses.unknown_kind(file)
    found = of_file(file, None, None)
    if found.access != REQUEST:
        raise UsageError(
            f"{file!r} is a trace of operations or objects, which have no addresses; use 'scmsim replay' for the TLB misses of "
            "a file system, or 'scmsim mrc' for TLBs of every size"
        )
    return found
