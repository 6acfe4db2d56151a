"""The rows of the VSM paper's evaluation, whole: simulated as the paper ran them, and with one multicast a write.

Run: python -m tests.verification.vsm   (some minutes)
The same figures as `scmsim reproduce vsm`, which says what each one is.
"""

from scmsim.core.records import READ, WRITE
from scmsim.reproduce.vsm import SIZES, faster, mail

KIB, MIB = 1 << 10, 1 << 20
ROWS = [
    ("VSM-7", "pmfs-4k", "pmfs-2m", WRITE, "seq", (KIB,), 98),
    ("VSM-8", "pmfs-2m", "pmfs-4k", WRITE, "seq", (2 * MIB,), 1.5),
    ("VSM-9", "vsm", "pmfs-2m", WRITE, "seq", (KIB,), 94),
    ("VSM-10", "vsm", "pmfs-2m", WRITE, "seq", (MIB,), 2.2),
    ("VSM-11", "vsm", "pmfs-2m", WRITE, "random", (KIB,), 225),
    ("VSM-12", "vsm", "pmfs-2m", WRITE, "random", (MIB,), 2.3),
    ("VSM-13", "vsm", "pmfs-4k", WRITE, "seq", SIZES, 1.36),
    ("VSM-14", "vsm", "pmfs-4k", WRITE, "random", SIZES, 1.36),
    ("VSM-15", "vsm", "nova-fast16", WRITE, "seq", SIZES, 1.09),
    ("VSM-16", "vsm", "nova-fast16", WRITE, "random", SIZES, 1.22),
    ("VSM-17", "vsm", "pmfs-4k", READ, "seq", SIZES, 1.13),
    ("VSM-18", "vsm", "pmfs-4k", READ, "random", SIZES, 1.15),
    ("VSM-19", "vsm", "nova-fast16", READ, "seq", SIZES, 1.14),
    ("VSM-20", "vsm", "nova-fast16", READ, "random", SIZES, 1.11),
    ("VSM-23", "vsm", "pmfs-2m", READ, "random", SIZES, "slightly below 1"),
]


def main() -> None:
    """Print every row: published, simulated, simulated with one multicast a write."""
    print("| row | faster | than | request | published | simulated | with one multicast a write |")
    print("|" + "---|" * 7)
    for name, fs, than, op, order, sizes, published in ROWS:
        what = f"{order} {'write' if op == WRITE else 'read'} "
        what += f"{sizes[0] >> 10} KiB" if len(sizes) == 1 else "1 KiB to 2 MiB, mean"
        local, safe = faster(fs, than, op, order, sizes, False)
        print(f"| {name} | {fs} | {than} | {what} | {published} | {local:.2f} | {safe:.2f} |", flush=True)
    for name, than, published in (
        ("VSM-21", "pmfs-4k", 0.67),
        ("VSM-22", "nova-fast16", 0.82),
        ("VSM-23", "pmfs-2m", "slightly above 1"),
    ):
        ratio = mail("vsm", False) / mail(than, False)
        print(f"| {name} | vsm | {than} | postmark, elapsed | {published} | {ratio[0]:.2f} | {ratio[1]:.2f} |")


if __name__ == "__main__":
    main()
