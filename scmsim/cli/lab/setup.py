"""`scmsim lab setup`: choose the guest's kernel and compile the lab's two programs."""

import click

from scmsim.core.errors import UsageError

SUMMARY = "Choose the kernel to measure, and build the plugin and the guest's program."


@click.command(
    "setup",
    help=f"""{SUMMARY}

The kernel is a Debian package (unpacked, not installed), or any bzImage with its modules: your own build with NOVA or PMFS
works too. Without an option: what would be done. With --apply, apt brings what is missing (needs root) and the kernel package.""",
)
@click.option("--kernel", "package", metavar="FILE.deb", type=click.Path(), help="A Debian or Ubuntu kernel package.")
@click.option("--kernel-image", "image", type=click.Path(), help="Any bzImage.")
@click.option("--modules", type=click.Path(), help="Its modules: the folder lib/modules/RELEASE.")
@click.option("--apply", is_flag=True, help="Let apt install what is missing and download the newest kernel package.")
def command(package: str | None, image: str | None, modules: str | None, apply: bool) -> int:
    from scmsim.lab import cache, kernel, qemu, tools

    if package and image:
        raise UsageError("--kernel and --kernel-image exclude each other; give one of them")
    if modules and not image:
        raise UsageError("--modules goes with --kernel-image; a package has its own")
    missing = tools.command(tools.examine())
    if apply:
        tools.install()
    elif missing:
        click.echo(f"missing; run: {missing}\nor let apt do it: scmsim lab setup --apply")
        return 3
    if not (package or image or kernel.chosen() or kernel.installed()):
        if not apply:
            click.echo("no kernel; give --kernel FILE.deb or --kernel-image FILE, or let apt download one with --apply")
            return 3
        package = tools.download_kernel()
    found = kernel.find(package, image, modules)
    found.check(dax=False)
    kernel.choose(found)
    cache.guest()
    cache.plugin(qemu.find().api)
    click.echo(f"kernel {found.version()}; next: scmsim lab run smoke -o FOLDER")
    return 0
