"""Check whether the label of each target matches the mounted file system.

A label can be wrong because three cases look alike: a file system on persistent memory with direct access, the same file
system through the page cache, and a file system on another device.
"""

import os
from collections.abc import Sequence

from scmsim.perf.machine import Machine
from scmsim.perf.matrix import Matrix, Target
from scmsim.perf.mounts import Mount, mounts


def mount_of(target: Target, mounted: Sequence[Mount]) -> Mount | None:
    """Return the mount of `mounted` that contains a target; None if no mount does."""
    path = os.path.realpath(target.path)
    around = [mount for mount in mounted if path == mount.point or path.startswith(f"{mount.point.rstrip('/')}/")]
    return max(around, key=lambda mount: len(mount.point), default=None)


def described(matrix: Matrix, machine: Machine) -> dict[str, dict[str, object]]:
    """Return the mount of every target, for the manifest."""
    mounted = mounts(machine)
    found = {target.label: mount_of(target, mounted) for target in matrix.targets}
    return {label: mount._asdict() if mount else {} for label, mount in found.items()}


def warnings(matrix: Matrix, machine: Machine) -> list[str]:
    """Return a warning for each target whose label promises NOVA or direct access that its mount does not provide."""
    mounted = mounts(machine)
    found = []
    for target in matrix.targets:
        mount = mount_of(target, mounted)
        what = (
            f"{target.path!r} is {mount.type} ({mount.remark})" if mount else f"{target.path!r} is on an unknown mount"
        )
        if target.label.startswith("nova") and (mount is None or mount.type != "NOVA"):
            found.append(f"{target.label} is not measured on NOVA: {what}")
        elif target.label.endswith("-dax") and (mount is None or not mount.dax):
            found.append(f"{target.label} is not measured with direct access: {what}")
    return found
