"""`scmsim lab setup`: choose the guest's kernel and compile the lab's two programs."""

import click

from scmsim.core.errors import UsageError

SUMMARY = "Choose the kernel to measure, and build the QEMU plugin and the guest's program."


@click.command(
    "setup",
    help=f"""{SUMMARY}

The kernel is a Debian package (unpacked, not installed), or any bzImage with its modules: your own build with NOVA or PMFS
works too. The command lists missing programs; with --apply, apt installs them (as root) and downloads the kernel.

--release fetches the newest kernel of each series from Debian (bullseye for 5.10; bookworm, trixie; their backports).
All these kernels are kept: --kernel 6.12 selects one of them in the other commands of the lab.

\b
Example: scmsim lab setup --release 6.1,6.12 --apply
""",
)
@click.option("--kernel", "package", metavar="FILE.deb", type=click.Path(), help="A Debian or Ubuntu kernel package.")
@click.option("--release", metavar="VERSIONS", help="Debian kernels to keep, e.g. 6.1,6.12; the first is the default.")
@click.option("--kernel-image", "image", type=click.Path(), help="Any bzImage.")
@click.option("--modules", type=click.Path(), help="Modules of --kernel-image: the folder lib/modules/RELEASE.")
@click.option("--apply", is_flag=True, help="Let apt install what is missing and download the newest kernel package.")
def command(package: str | None, release: str | None, image: str | None, modules: str | None, apply: bool) -> int:
    from scmsim.lab import cache, debian, kernel, qemu, tools

    if sum(map(bool, (package, image, release))) > 1:
        raise UsageError("--kernel, --kernel-image and --release exclude each other; give one of them")
    wanted = debian.releases(release) if release else []
    if modules and not image:
        raise UsageError(
            "--modules needs --kernel-image, because a kernel package has its own modules; leave --modules out"
        )
    missing = tools.command(tools.examine())
    if apply:
        tools.install()
    elif missing:
        click.echo(f"missing; run: {missing}\nor let apt do it: scmsim lab setup --apply")
        return 3
    if wanted and apply:
        for packages in debian.download(wanted):
            kernel.from_package(*packages)
    package = wanted[0] if wanted else package
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
    for each in [kernel.named(name) for name in wanted] or [found]:
        click.echo(f"kernel {each.version()}: {tools.suits(each)}")
    click.echo("next: scmsim lab run smoke -o FOLDER")
    return 0
