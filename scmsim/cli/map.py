"""`scmsim map`: show which page sizes the mapping of a file gets and why, what they cost, and how to get large ones."""

import json
import os
from collections import Counter
from typing import Any

import click

from scmsim.core.errors import UsageError
from scmsim.core.text import printable, shortened

SUMMARY = "Show which 2 MiB ranges of a file can be mapped at once, why others cannot, the cost, and the fix."
_FS = "ext4-dax,xfs-dax,winefs,nova-cow,tmpfs"
_WIDTH = 48
_RUNS = 20  # runs of a process's pages to print, at most
_NOW = {"nothing": "not mapped now", "4 KiB": "by small entries", "2 MiB": "at once"}


@click.command(
    "map",
    help=f"""{SUMMARY}

FILE is a file of this machine (only read) or a trace (.parquet, or the name of a shipped experiment). For a trace, the
command examines the files that the trace maps, as the models have placed them at its end.

With --expect, the exit code is 1 unless every page that can have that size has it (--pid: every page that the process
touched).  --expect 1GiB fails for files of 1 GiB or more, because Linux maps files by at most 2 MiB.""",
)
@click.argument("file")
@click.option("--fs", help=f"Trace: file systems (scmsim list fs).  [default: {_FS}]")
@click.option(
    "--set", "assignments", multiple=True, metavar="FS.KEY=VALUE", help="Trace: a parameter; may be repeated."
)
@click.option(
    "--machine", default="i7-8700k", show_default=True, help="Machine whose TLB counts the walks (scmsim list machine)."
)
@click.option("--offset", default="0", show_default=True, metavar="BYTES", help="File: where the mapping begins.")
@click.option("--length", metavar="BYTES", help="File: bytes of the mapping.  [default: to the file's end]")
@click.option("--as-dax", is_flag=True, help="File: assume that its file system is mounted with DAX.")
@click.option("--pid", type=click.IntRange(1), help="File: also show which parts a running process has mapped.")
@click.option(
    "--expect",
    type=click.Choice(["4KiB", "2MiB", "1GiB"]),
    help="Page size to expect; exit code 1 if a page does not have it.",
)
@click.option("--top", default=10, show_default=True, type=click.IntRange(1, 1_000_000), help="Trace: files to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    file: str,
    fs: str | None,
    assignments: tuple[str, ...],
    machine: str,
    offset: str,
    length: str | None,
    as_dax: bool,
    pid: int | None,
    expect: str | None,
    top: int,
    as_json: bool,
) -> int:
    from scmsim.pipeline.arguments import machine_table

    table = machine_table(machine)
    if file.endswith((".parquet", ".toml")) or not os.path.exists(file) and "/" not in file and "." not in file:
        if pid or length or as_dax or offset != "0":
            raise UsageError("--offset, --length, --as-dax and --pid are for a file of this machine, not for a trace")
        answer = _of_trace(file, fs or _FS, assignments, table, expect)
        text = _trace_text(answer, machine, top)
    else:
        if fs or assignments:
            raise UsageError("--fs and --set are for a trace; leave them out for a file of this machine")
        answer = _of_file(file, table, offset, length, as_dax, pid, expect)
        text = _file_text(answer, machine)
    verdicts = answer.get("expected", {})
    if verdicts:
        text += "\n\n" + "\n".join(printable(each["text"]) for each in verdicts.values())
    click.echo(json.dumps(answer, indent=1) if as_json else text)
    return int(not all(each["holds"] for each in verdicts.values()))


def _costs(table: dict[str, Any], parts: list[tuple[tuple[Any, int, int], tuple]]) -> dict[str, Any]:
    """Return the faults and walks of mappings, as they are and with pages of one size.

    Each part, a mapping, is (arguments of `rules.pages_of`, further arguments of `rules.faults`).
    """
    import numpy as np

    from scmsim.study.page_size import rules
    from scmsim.study.page_size.cost import walks_per_touch

    pages = [rules.pages_of(*mapping) for mapping, _ in parts]
    faults = [rules.faults(part[0][0], int(own.sum()), *part[1]) for part, own in zip(parts, pages, strict=True)]
    huge, of = np.concatenate([mapping[0] == rules.WHOLE for mapping, _ in parts]), np.concatenate(pages)
    total = int(of.sum())
    return {
        "load_faults": sum(each.loads for each in faults),
        "store_faults": sum(each.stores for each in faults),
        "walks_per_touch": walks_per_touch(table, huge, of),
        "all_4k": {"faults": total, "walks_per_touch": walks_per_touch(table, np.zeros_like(huge), of)},
        "all_2m": {"faults": len(of), "walks_per_touch": walks_per_touch(table, np.ones_like(huge), of)},
    }


def _counted(found: Any) -> dict[str, int]:
    import numpy as np

    from scmsim.study.page_size.rules import CLASSES

    counts = np.bincount(found, minlength=len(CLASSES))
    return {name: int(count) for name, count in zip(CLASSES, counts, strict=True) if count}


def _of_file(
    path: str,
    table: dict[str, Any],
    offset: str,
    length: str | None,
    as_dax: bool,
    pid: int | None,
    expect: str | None,
) -> dict[str, Any]:
    import numpy as np

    from scmsim.core.units import parse_bytes
    from scmsim.study.page_size import fix, from_file, rules

    begin, descriptor = parse_bytes(offset), from_file.opened(path)
    try:
        size, place = os.fstat(descriptor).st_size, from_file.place_of(descriptor)
        if begin % rules.PAGE or begin >= size:
            raise UsageError(f"--offset {offset} is not a multiple of 4KiB within the file's {size:,} bytes")
        start = from_file.device_start(place.device)
        end = size if length is None else min(size, begin + parse_bytes(length))
        if end == begin:
            raise UsageError("--length 0 maps nothing; give the bytes of the mapping, or leave --length out")
        count, found = 0, np.full(-(-end // rules.HUGE) - begin // rules.HUGE, rules.NEVER, np.uint8)
        if place.fs != "tmpfs":
            extents = from_file.extents(descriptor)
            count = len(extents.first)
            if place.dax or as_dax:
                on_disk = extents._replace(place=extents.place + (start or 0) // rules.PAGE)
                found = rules.classes(on_disk, size, begin, end - begin)
        elif place.options.get("huge", "never") in ("always", "within_size"):
            found = rules.cached_classes(begin, end)
    finally:
        os.close(descriptor)
    mend = fix.advice(found, place, path, start, begin)
    process = _of_process(pid, path, found, begin) if pid else {}
    if expect:
        process["expected"] = {path: _expected(expect, found, (begin, end), process.pop("now", None), mend)}
    process.pop("now", None)
    return {
        "file": path,
        "bytes": size,
        "file_system": place.fs,
        "dax": place.dax or as_dax,
        "extents": count,
        "regions": _counted(found),
        **_costs(table, [((found, end, begin), (1 if as_dax or place.dax else 16,))]),
        "mend": mend,
        **process,
    }


def _of_process(pid: int, path: str, found: Any, begin: int) -> dict[str, Any]:
    """Return which parts of a file a process maps, from byte `begin` on; `found` has an element for each 2 MiB range.

    The entry `now` of the result is an array with the page size of each range, or the reason why they are unknown.
    """
    from scmsim.core.errors import EnvironmentProblem
    from scmsim.study.page_size import from_process, rules

    text, first = from_process.smaps_of(pid), begin // rules.HUGE
    try:
        now: Any = from_process.page_sizes(pid, text, path, first + len(found))[first:]
    except EnvironmentProblem as error:
        now = str(error)
    shown = now if isinstance(now, str) else from_process.runs(now, first)
    return {"process": from_process.sums(text, path), "process_pages": shown, "now": now}


def _expected(page: str, found: Any, mapped: tuple[int, int], now: Any, mend: list[str]) -> dict[str, Any]:
    """Return the verdict of --expect on a file whose byte range `mapped` is mapped.

    `now` has its page sizes in a process (a text: why they are unknown; None: no process), `mend` the possible fixes.
    """
    from scmsim.core.errors import EnvironmentProblem
    from scmsim.study.page_size import expect

    giants = expect.giants_in(mapped[1], mapped[0])
    if isinstance(now, str):
        raise EnvironmentProblem(f"the page sizes of the process are not known, so --expect cannot be checked: {now}")
    if now is not None:
        return expect.of_process(page, found, now, giants, mend)._asdict()
    return expect.of_classes(page, _counted(found), giants, mend)._asdict()


def _of_trace(
    trace: str, fs: str, assignments: tuple[str, ...], table: dict[str, Any], page: str | None
) -> dict[str, Any]:
    from scmsim.cli._progress import Progress
    from scmsim.cli.replay import _params, source_of
    from scmsim.core.errors import unknown
    from scmsim.pipeline.arguments import names_of
    from scmsim.study.page_size import expect
    from scmsim.study.page_size.benefit import setting_of
    from scmsim.study.page_size.from_model import page_sizes

    params, names = _params(assignments), names_of(fs)
    for name in params:
        if name not in names:
            raise unknown("file system shown here", name, names)
    answer: dict[str, Any] = {"trace": trace, "file_systems": {}}
    with Progress() as progress:
        for name in names:
            found = page_sizes(source_of(trace), name, params.get(name, {}), progress)
            if isinstance(found, str) and page:
                raise UsageError(f"{name}: {found}, so --expect cannot be checked; leave {name!r} out of --fs")
            if isinstance(found, str):
                answer["file_systems"][name] = {"not_modelled": found}
                continue
            if not found:
                raise UsageError(f"no file is left at the end of {trace!r}, so there is nothing to map")
            files: list[dict[str, Any]] = [
                {"file": one.path, "bytes": one.length, "extents": one.extents, "regions": _counted(one.found)}
                for one in found
            ]
            totals = dict(sum((Counter(each["regions"]) for each in files), Counter()))
            costs = _costs(table, [((one.found, one.length, 0), (one.around, one.whole_blocks)) for one in found])
            costs["load_faults"] += sum(one.filling for one in found)
            if page:
                giants = sum(expect.giants_in(one.length) for one in found)
                setting = setting_of(name, params.get(name, {}))
                verdict = expect.of_classes(page, totals, giants, [f"--set {name}.{setting}"] if setting else [])
                told = {**verdict._asdict(), "text": f"{name}: {verdict.text}"}
                answer.setdefault("expected", {})[name] = told
            answer["file_systems"][name] = {"regions": totals, **costs, "files": files}
    return answer


def _file_text(answer: dict[str, Any], machine: str) -> str:
    from scmsim.study.page_size.rules import MEANING

    how = f"{answer['file_system']}{', dax' if answer['dax'] else ''}"
    blocks = f" in {answer['extents']:,} extents" if answer["extents"] else ""
    lines = [f"{printable(answer['file'])}: {answer['bytes']:,} bytes{blocks} on {how}", ""]
    lines += [f"{count:>10,} x 2 MiB  {name:<11} {MEANING[name]}" for name, count in answer["regions"].items()]
    lines += ["", *_cost_lines([("now", answer)], answer, machine)]
    if "process" in answer:
        told = ", ".join(f"{name} {kib:,} KiB" for name, kib in answer["process"].items()) or "does not map it"
        lines += ["", f"the process: {told}" + (" (smaps shows no large pages of DAX)" if answer["dax"] else "")]
        lines += _page_lines(answer["process_pages"]) if answer["process"] else []
    if answer["mend"]:
        lines += ["", "what fixes it:", *(f"  {printable(line)}" for line in answer["mend"])]
    return "\n".join(lines)


def _page_lines(now: "list[dict[str, Any]] | str") -> list[str]:
    """Return lines on which 2 MiB ranges a process has mapped, and with which size of page-table entries."""
    if isinstance(now, str):
        return [f"  by which entries: {now}"]
    lines = [
        f"{each['bytes'] >> 21:>10,} x 2 MiB  from {each['offset'] >> 20:,} MiB on: {_NOW[each['by']]}"
        for each in now[:_RUNS]
    ]
    return [*lines, *([f"  and {len(now) - _RUNS:,} runs more (--json)"] if len(now) > _RUNS else [])]


def _cost_lines(columns: list[tuple[str, dict[str, Any]]], any_of: dict[str, Any], machine: str) -> list[str]:
    """Return lines of faults and walks: the given columns, then two for pages that are all 4 KiB or all 2 MiB (`any_of`)."""
    one_size = [
        (label, {"load_faults": any_of[key]["faults"], "store_faults": any_of[key]["faults"], **any_of[key]})
        for label, key in (("all 4 KiB", "all_4k"), ("all 2 MiB", "all_2m"))
    ]
    rows = (
        ("faults, every page loaded once", "load_faults", "{:,}"),
        ("faults, every page stored to once", "store_faults", "{:,}"),
        (f"walks per random load, {machine}", "walks_per_touch", "{:.3f}"),
    )
    columns = [*columns, *one_size]
    lines = [" " * _WIDTH + "".join(f"{label:>16}" for label, _ in columns)]
    return lines + [
        f"{text:<{_WIDTH}}" + "".join(f"{form.format(values[key]):>16}" for _, values in columns)
        for text, key, form in rows
    ]


def _trace_text(answer: dict[str, Any], machine: str, top: int) -> str:
    known = {name: one for name, one in answer["file_systems"].items() if "regions" in one}
    left = {name: one["not_modelled"] for name, one in answer["file_systems"].items() if "regions" not in one}
    lines = []
    if known:
        classes = list(dict.fromkeys(name for one in known.values() for name in one["regions"]))
        lines = ["2 MiB of the files" + " " * (_WIDTH - 18) + "".join(f"{fs:>16}" for fs in known)]
        for name in classes:
            lines.append(
                f"  {name:<{_WIDTH - 2}}" + "".join(f"{one['regions'].get(name, 0):>16,}" for one in known.values())
            )
        lines += ["", *_cost_lines(list(known.items()), next(iter(known.values())), machine), ""]
    for fs, one in known.items():
        lines.append(f"{fs}:")
        largest = sorted(one["files"], key=lambda file: -file["bytes"])
        for file in largest[:top]:
            told = ", ".join(f"{count:,} {name}" for name, count in file["regions"].items())
            lines.append(f"  {shortened(file['file'], 60):<60} {file['bytes']:>16,} bytes  {told}")
        if len(largest) > top:
            lines.append(f"  and {len(largest) - top:,} files more (--top)")
    lines += [f"{fs}: {why}" for fs, why in left.items()]
    return "\n".join(lines)
