"""`scmsim perf setup`: set up a file system on persistent memory, on a machine where nothing is prepared."""

from typing import Any

import click

SUMMARY = "Show or carry out the steps that set up a file system on persistent memory."


@click.command(
    "setup",
    help=f"""{SUMMARY}

    Without --apply nothing is changed: the steps are printed for you to read or to run yourself. With --apply they are
    carried out, all or none: nothing is done on a device that is mounted, is in use or has a file system.
    'scmsim perf teardown' undoes them.

    \b
    Example: scmsim perf setup --fs ext4-dax --device /dev/pmem0 --size 16GiB --show
    """,
)
@click.option("--show/--apply", default=True, help="Print the steps (default) or carry them out (as root).")
@click.option("--fs", default="ext4-dax", show_default=True, help="ext4-dax, ext4, xfs-dax, nova-cow or nova-inplace.")
@click.option("--device", default="/dev/pmem0", show_default=True, help="Persistent-memory block device or partition.")
@click.option("--folder", default="/mnt/scmsim", show_default=True, help="A new or empty folder to mount in.")
@click.option("--size", help="Bytes of DRAM to use if there is no device.  [default: half of the DRAM]")
@click.option("--start", help="Physical address of that region (memmap=size!start).  [default: at the end of RAM]")
@click.option("--namespace", help="Make this ndctl namespace 2 MiB aligned first; everything on it is lost.")
@click.option(
    "--still/--no-still",
    " /--no-quiet",
    "quiet",
    default=True,
    show_default=True,
    help="Fix the CPU clock, stop the watchdog, open the counters.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: boot, steps, remarks, mount_point.")
def command(show: bool, as_json: bool, size: str | None, start: str | None, **given: Any) -> None:
    import json

    from scmsim.core.units import parse_bytes
    from scmsim.perf import setup
    from scmsim.perf.machine import Machine

    machine = Machine()
    span: dict[str, Any] = {name: parse_bytes(text) for name, text in (("size", size), ("start", start)) if text}
    request = setup.Request(**span, **given)
    steps = setup.plan(machine, request)
    point = (
        steps[-1].argv[-1] if show else setup.apply(machine, request, lambda text: click.echo(f"+ {text}", err=True))
    )
    boot, remarks = setup.boot_steps(machine, request) if show else [], setup.remarks(machine, request)
    if as_json:
        rows = [{"why": step.why, "command": step.text} for step in steps]
        click.echo(json.dumps({"mount_point": point, "boot": boot, "steps": rows, "remarks": remarks}, indent=2))
        return
    if not show:
        click.echo(f"{point} is mounted; next: scmsim perf check; undo: scmsim perf teardown --folder {request.folder}")
        return
    for line in [*boot, *(f"{step.text}    # {step.why}" for step in steps), *(f"# {remark}" for remark in remarks)]:
        click.echo(line)
