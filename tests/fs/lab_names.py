"""The operations of the measured passes over names as the lab runs them: passes that belong together share a fresh directory."""

from scmsim.core import records as r
from tests.fs import lab

CREATE, CLOSE = (r.CREATE,), (r.CLOSE,)
GROUPS = (
    {"create": [CREATE, CLOSE], "stat": [(r.STAT,)], "openclose": [(r.OPEN,), CLOSE], "unlink0": [(r.UNLINK,)]},
    {None: [CREATE, CLOSE], "rename": [(r.RENAME,)], "link": [(r.LINK,)], "unlinkl": [(r.UNLINK,)]},
    {"cwrite64k": [CREATE, (r.WRITE, 0, 65536), CLOSE], "unlink64k": [(r.UNLINK,)]},
    {"mkdir": [(r.MKDIR,)], "rmdir": [(r.RMDIR,)]},
    {"create_fsync": [CREATE, (r.FSYNC,), CLOSE]},
)


def sequence(count=1000):
    """(operations, a label each, side table) of passes over `count` files each, every pass followed by its `_sync`."""
    rows, labels, files = [], [], []
    for group in GROUPS:
        first, parent = len(files), len(files) + count
        files += [f"/d{first}/f{i:06d}" for i in range(count)] + [f"/d{first}"]
        rows += [(r.MKDIR, parent), (r.SYNC, -1)]
        labels += [None, None]
        for label, steps in group.items():
            for file in range(first, parent):
                for step in steps:
                    other = -1 if step[0] == r.RENAME else parent
                    rows.append((step[0], file, *step[1:], *(0,) * (4 - len(step)), other))
                    labels.append(label)
            rows.append((r.SYNC, -1))
            labels.append(f"{label}_sync")
    return lab.batch(rows), labels, lab.side_table(files)
