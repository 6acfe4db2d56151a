"""A command on one of the lab's kernels, with this machine's programs: a guest whose root is the host's, read only.

The guest is QEMU's (TCG) as in the lab, but without a plugin: what it runs needs a kernel that this machine has not, and no counts.
The host's files come by virtiofs.  What the command writes is on an ext4 on memory declared persistent
(TMPDIR, HOME, /var/tmp), and gone at the end.
"""

import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence

from scmsim.core.errors import EnvironmentProblem
from scmsim.lab import cache, initramfs, kernel, qemu

INIT = pathlib.Path(__file__).with_name("guest_root.c")
_SERVERS = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
_MEMORY, _DISK = "4096M", "1G!4G"  # of the guest; what of it is the disk: from 4 GiB on, as the low part ends at 2
_SCRIPT = """
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tracefs none /sys/kernel/tracing
mkdir -p /dev/shm; mount -t tmpfs none /dev/shm; mount -t tmpfs none /run; exec > /dev/ttyS1 2>&1
mkfs.ext4 -q /dev/pmem0 && mount /dev/pmem0 /mnt && mkdir /mnt/tmp /mnt/home || exit
cd {cwd}; mount --bind /mnt/tmp /var/tmp
export HOME=/mnt/home TMPDIR=/mnt/tmp XDG_CACHE_HOME=/mnt/home PYTHONDONTWRITEBYTECODE=1 NUMBA_DISABLE_JIT=1 {variables}
{command}
echo guest: status $?
"""


def run(
    found: kernel.Kernel,
    command: Sequence[str],
    variables: dict[str, str],
    timeout_s: float,
    modules: Sequence[str] = (),
) -> Iterator[str]:
    """Run a command in the current folder; yields the lines that it writes, the last of them is "guest: status N".

    Raises
    ------
    EnvironmentProblem
        If something is missing, or the guest does not come to its end.
    """
    script = _SCRIPT.format(
        cwd=shlex.quote(os.getcwd()),
        command=shlex.join(command),
        variables=" ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items()),
    )
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        (folder / "initrd").write_bytes(_image(folder, found, script, modules))
        (folder / "out").touch()
        stack.enter_context(_served(folder / "socket"))
        guest = stack.enter_context(subprocess.Popen(_arguments(folder, found), stdin=subprocess.DEVNULL))
        stack.callback(guest.kill)
        end, told = time.monotonic() + timeout_s, False
        with open(folder / "out", encoding="utf-8", errors="replace") as said:
            while True:
                over = guest.poll() is not None or time.monotonic() > end
                for line in said.read().splitlines():
                    told |= line.startswith("guest: status")
                    yield line
                if over:
                    break
                time.sleep(0.5)
        if not told:
            last = (folder / "console").read_text(errors="replace").strip().splitlines()[-3:]
            raise EnvironmentProblem(f"the guest did not come to its end: {' | '.join(last)}")


def _image(folder: pathlib.Path, found: kernel.Kernel, script: str, more: Sequence[str]) -> bytes:
    compiler = cache.compiler()
    if compiler is None:
        raise EnvironmentProblem("no C compiler; run: apt-get install gcc libc6-dev")
    subprocess.run([compiler, "-static", "-O1", "-o", folder / "init", INIT], check=True)
    modules = kernel.module_files(found, (*kernel.PM_MODULES, "virtio_pci", "virtiofs", *more))
    files = {f"/modules.d/{name}.ko": content for name, content in modules.items()}
    files["/modules"] = "".join(f"{path}\n" for path in files).encode()
    return initramfs.archive({**files, "/init": (folder / "init").read_bytes(), "/script": script.encode()})


@contextlib.contextmanager
def _served(socket: pathlib.Path) -> Iterator[None]:
    """The host's root on a socket."""
    program = next(filter(shutil.which, _SERVERS), None)
    if program is None:
        raise EnvironmentProblem("no virtiofsd; run: apt-get install qemu-system-common (Debian 12) or virtiofsd")
    words = ["-o", "source=/", "-o", "cache=always", "-o", "sandbox=chroot", "-o", "log_level=err", "-f"]
    server = subprocess.Popen([program, f"--socket-path={socket}", *words], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.1)
        yield
    finally:
        server.kill()
        server.wait()


def _arguments(folder: pathlib.Path, found: kernel.Kernel) -> list[str]:
    return [
        qemu.find().path, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-smp", "2", "-m", _MEMORY,
        "-machine", "q35,memory-backend=ram", "-object", f"memory-backend-memfd,id=ram,size={_MEMORY},share=on",
        "-cpu", "max,la57=off", "-accel", "tcg,thread=multi",
        "-chardev", f"socket,id=host,path={folder}/socket", "-device", "vhost-user-fs-pci,chardev=host,tag=host",
        "-serial", f"file:{folder}/console", "-serial", f"file:{folder}/out",
        "-kernel", found.image, "-initrd", f"{folder}/initrd",
        "-append", f"console=ttyS0 quiet no_timer_check panic=-1 memmap={_DISK}",
    ]  # fmt: skip
