"""How many Filebench files (.f) of a folder the workload reads, and why it refuses the others.

    python -m tests.verification.filebench_files FOLDER

Files with equal contents count once.  Exit code 0.
"""

import collections
import hashlib
import pathlib
import re
import sys

from scmsim.core.errors import ScmsimError
from scmsim.workload import filebench


def main(folder: str) -> None:
    seen: set[str] = set()
    results: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for path in sorted(pathlib.Path(folder).rglob("*.f")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in seen or "define" not in path.read_text(errors="replace"):
            continue
        seen.add(digest)
        try:
            filebench.Workload(file=str(path), flowops=10)
        except ScmsimError as error:
            results["refused"] += 1
            said = str(error).partition(": ")[2] or str(error)
            reasons[re.sub(r"; .*", "", said)[:90]] += 1
            print(f"{path}: {str(error)[:200]}")
        else:
            results["accepted"] += 1
    for reason, times in reasons.most_common():
        print(f"{times:5d}  {reason}")
    print(dict(results))


if __name__ == "__main__":
    main(sys.argv[1])
