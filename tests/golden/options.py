"""Parameters of the models for the traces of the stored events (events.py): what leads elsewhere than the defaults."""

from collections.abc import Sequence

from scmsim.core import registry
from scmsim.core.errors import UnknownName

# Of the small device: the least capacity that leaves some MiB free, and parameters that lead elsewhere.
SMALL = {
    fs: capacity
    for capacity, names in {
        "3MiB": "ext2 ext2-dax ext2-ramdisk ramfs tmpfs",
        "4MiB": "ext2-scm fat-nand fat-scm xfs xfs-dax",
        "7MiB": "daxfs ext4 ext4-dax ext4-dax-linux4 ext4-linux4 nova-cow nova-fast16 nova-inplace",
        "8MiB": "scm-manager scmfs scmfs-lp simfs splitfs",
        "16MiB": "device-dax hugetlbfs pmfs-4k winefs winefs-relaxed",
        "24MiB": "ctfs famfs pmfs-2m vsm",
        "8GiB": "pmfs-1g vsm-1g",
    }.items()
    for fs in names.split()
}
# Room for a few pieces of 2 MiB.
LARGER = {fs: f"{int(capacity[:-3]) + 14}MiB" for fs, capacity in SMALL.items() if capacity.endswith("MiB")}
OTHERWISE = {
    "ctfs": {"update": "atomic"},
    "daxfs": {"gaps": "filled"},
    "device-dax": {"align": "4KiB", "writes": "ported"},
    "ext2": {"dirty_expire": "2s"},
    "ext2-dax": {"kernel": "6.1", "data_alignment": "2MiB", "dirty_expire": "2s"},
    "ext2-ramdisk": {"dirty_expire": "2s", "tick": "0"},
    "ext2-scm": {"mount": "sync"},
    "ext4": {"folios": "always", "kernel": "6.1", "dirty_expire": "6s"},
    "ext4-dax": {"kernel": "6.1", "data_alignment": "2MiB", "copy_fence": "0"},
    "ext4-dax-linux4": {"copy": "cached", "dirty_expire": "2s"},
    "ext4-linux4": {"commit_interval": "1s", "timestamp_tick": "4ms"},
    "famfs": {"growth": "logged", "lookup": "list"},
    "fat-nand": {"replacements": "2"},
    "fat-scm": {"page_cache": "cold"},
    "hugetlbfs": {"writes": "ported"},
    "nova-cow": {"inode_fence": "0"},
    "nova-fast16": {"tick": "0"},
    "nova-inplace": {"inode_fence": "0"},
    "pmfs-2m": {"version": "original"},
    "pmfs-4k": {"data_path": "cow", "journal": "1MiB"},
    "ramfs": {"tick": "0"},
    "scm-manager": {"first_objects": "5", "mm": "512KiB"},
    "scmfs": {"null_files": "2", "collect_above": "256KiB", "preallocate": "16KiB"},
    "scmfs-lp": {"threshold": "1MiB", "tail": "normal", "collect_above": "256KiB", "normal_percent": "60"},
    "simfs": {"update": "atomic"},
    "splitfs": {"mode": "strict"},
    "tmpfs": {"huge": "always", "kernel": "6.1"},
    "vsm": {"entries": "2MiB", "shootdown": "deferred"},
    "winefs": {"cpus": "2"},
    "winefs-relaxed": {"cpus": "2"},
    "xfs": {"folios": "always", "dirty_expire": "6s", "timestamp_tick": "4ms", "allocation_groups": "1"},
    "xfs-dax": {"kernel": "6.1", "data_alignment": "2MiB", "timestamp_tick": "4ms", "allocation_groups": "1"},
}
# Other values yet, for calls of all kinds, appends by several threads, and advice.
VARIED = {
    "ctfs": {"update": "atomic"},
    "daxfs": {"buckets": "4096"},
    "device-dax": {"writes": "ported"},
    "ext2": {"timestamp_tick": "0s", "tick": "0"},
    "ext2-dax": {"kernel": "6.12", "timestamp_tick": "0s", "tick": "0", "copy_fence": "0"},
    "ext2-ramdisk": {"timestamp_tick": "0s"},
    "ext2-scm": {"page_cache": "cold"},
    "ext4": {"journal": "4MiB", "kernel": "6.12", "commit_interval": "1s", "tick": "0", "folios": "always"},
    "ext4-dax": {"journal": "4MiB", "commit_interval": "1s", "data_alignment": "2MiB", "tick": "0"},
    "ext4-dax-linux4": {"journal": "4MiB", "timestamp_tick": "0s", "data_alignment": "2MiB"},
    "ext4-linux4": {"journal": "4MiB", "timestamp_tick": "0s", "tick": "0"},
    "famfs": {"growth": "logged", "lookup": "shift", "chase": "3", "form": "fuse", "tool": "creat"},
    "fat-nand": {"mount": "sync"},
    "fat-scm": {"mount": "sync"},
    "hugetlbfs": {"page": "1GiB", "writes": "ported"},
    "nova-cow": {"tick": "0", "cpus": "3"},
    "nova-inplace": {"tick": "0", "cpus": "3"},
    "pmfs-2m": {"lookup": "block", "data_path": "cow", "journal": "64KiB"},
    "pmfs-4k": {"version": "original", "journal": "64KiB"},
    "scm-manager": {"first_objects": "1", "mm": "256KiB", "boot": "64KiB"},
    "scmfs": {"null_files": "3", "collect_above": "64KiB", "preallocate": "2MiB", "collect_every": "1ms"},
    "scmfs-lp": {
        "threshold": "4MiB",
        "quiet": "1s",
        "copy_rate": "1MiB",
        "null_files": "3",
        "collect_above": "64KiB",
        "collect_every": "1ms",
    },
    "splitfs": {"mode": "sync", "operation_log": "64KiB", "staging": "64KiB", "tick": "0"},
    "tmpfs": {"huge": "advise", "kernel": "6.12"},
    "vsm": {"version": "original", "journal": "64KiB", "shootdown": "local"},
    "winefs": {"cpus": "3", "journal": "64KiB", "barrier": "0"},
    "winefs-relaxed": {"cpus": "3", "journal": "64KiB"},
    "xfs": {
        "log": "2MiB",
        "log_unit": "512",
        "log_buffer": "16KiB",
        "tick": "0",
        "timestamp_tick": "0s",
        "crc32c": "table",
    },
    "xfs-dax": {
        "log": "2MiB",
        "log_unit": "512",
        "log_buffer": "16KiB",
        "tick": "0",
        "copy_fence": "0",
        "timestamp_tick": "0s",
        "crc32c": "table",
    },
}
# And what neither has.
THIRD = {
    "ext4": {"folios": "always"},
    "ext4-dax": {"data_alignment": "2MiB", "kernel": "6.12"},
    "pmfs-4k": {"lookup": "block"},
    "scmfs": {"collect_above": "16KiB", "collect_every": "1s"},
    "scmfs-lp": {"threshold": "1MiB", "quiet": "5s", "normal_percent": "30"},
    "splitfs": {"staging": "64KiB"},
    "tmpfs": {"huge": "within_size"},
    "vsm": {"shootdown": "deferred"},
    "xfs": {"sync_interval": "5s", "log": "2MiB", "folios": "always"},
    "xfs-dax": {"sync_interval": "5s", "data_alignment": "2MiB", "log": "2MiB"},
}
HUGE = {"tmpfs": {"huge": "always"}, "ext4-dax": {"data_alignment": "2MiB"}, "xfs-dax": {"data_alignment": "2MiB"}}


def problem(names: Sequence[str]) -> str:
    """Return in one line why the files of these file systems, or of all, cannot be made; "" if they can."""
    try:
        for fs in names:
            registry.path("fs", fs)
    except UnknownName as error:
        return str(error)
    missing = [fs for fs in names or registry.names("fs") if fs not in SMALL]
    told = ", ".join(map(repr, missing))
    return f"no capacity of a small device for {told}; add it to SMALL in tests/golden/options.py" if missing else ""
