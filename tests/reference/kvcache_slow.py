"""The KV cache of a language-model server, the slow way: texts are tuples, and the victim is searched for.

Independent of scmsim.workload._kvcache: blocks are named by the whole text before their end, and every use has a time stamp.
"""

import json
from typing import NamedTuple


class Step(NamedTuple):
    """One transfer: "get" or "put" of a block, or the "evict" of one."""

    kind: str
    text: tuple[int, ...]


def texts(lines: list[str], own: int, tokens: int) -> list[list[tuple[int, ...]]]:
    """Return each request's full blocks of `tokens` tokens: the trace's blocks up to its end, and the place in the last one."""
    found = []
    for line in lines:
        request = json.loads(line)
        blocks = []
        for count in range(1, request["input_length"] // tokens + 1):
            last = count * tokens - 1  # the block's last token
            blocks.append((*request["hash_ids"][: last // own + 1], -1 - last))
        found.append(blocks)
    return found


def steps(requests: list[list], slots: int) -> list[Step]:
    """Return what an LRU cache of `slots` blocks does for the requests."""
    used: dict = {}  # block -> time of its last use
    clock = 0
    done = []
    for request in requests:
        hits = 0
        for block in request:
            if block not in used:
                break
            hits += 1
        done += [Step("get", block) for block in request[:hits]]
        for block in reversed(request[:hits]):
            clock += 1
            used[block] = clock
        for block in request[hits:]:
            clock += 1
            if block not in used:
                if len(used) == slots:
                    victim = min(used, key=lambda known: used[known])
                    del used[victim]
                    done.append(Step("evict", victim))
                done.append(Step("put", block))
            used[block] = clock
    return done
