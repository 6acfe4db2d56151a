"""Requests to a language model's cache of keys and values, read from a trace or drawn, and the LRU cache that serves them.

A request is a list of block numbers.  Two blocks have the same number if their texts are equal from the beginning of the text to
the end of the block.  Only full blocks are cached, as LMCache (save_unfull_chunk) and vLLM do by default.

Sources: trace format: README of FAST25-release in kvcache-ai/Mooncake.  Order of use: LMCache's LRU policy and touch_cache
(lmcache/v1/storage_backend/local_cpu_backend.py, commit 000620e3).  Shapes of models: each model's config.json as listed in
LMCache's examples/kv_cache_calculator/modelconfig.json (commit 0ac4671b).  Constants of `conversations`: fitted to the first
6,015 requests of Mooncake's conversation trace, see docs/validation/workloads.md.
"""

import heapq
import json
import pathlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.errors import UnknownName, UsageError, shown, unknown

# Elements of one token: keys and values x layers x heads of keys and values x size of a head; DeepSeek-V3 keeps one latent
# vector and the rotated part of the keys instead.
MODELS = {
    "llama-3.1-8b": 2 * 32 * 8 * 128,
    "llama-3.1-70b": 2 * 80 * 8 * 128,
    "llama-3.1-405b": 2 * 126 * 8 * 128,
    "mistral-7b": 2 * 32 * 8 * 128,
    "qwen2.5-7b": 2 * 28 * 4 * 128,
    "qwen3-8b": 2 * 36 * 8 * 128,
    "qwen3-32b": 2 * 64 * 8 * 128,
    "deepseek-v3": 61 * (512 + 64),
}
LARGEST = 1 << 31  # maximum elements per token
TRACE_BLOCK = 512  # tokens: Mooncake's block, for a trace whose requests all have one block
LONGEST_LINE = 16 << 20  # maximum characters of a request in a trace

# Constants of `conversations`, fitted.
SYSTEM = 512  # tokens with which every conversation begins
PROMPT_SPREAD = 1.16  # sigma of the log-normal first prompt
TURN, TURN_SPREAD = 450, 1.4  # median tokens that a turn adds, sigma
GAP_SPREAD = 0.9  # sigma of the log-normal number of requests between two turns
LOYALTY = 4.7  # a + b of the beta distribution of a conversation's chance to go on
EDITED = 0.156  # share of the turns that replace the end of the conversation ...
EDITED_POWER = 2  # ... at the place u^2 of its length, u uniform in [0, 1)
MOST_TOKENS = 1 << 20  # maximum number of tokens of one request


def elements(model: str) -> int:
    """Return the elements of one token, from a name in MODELS or from factors such as 2x32x8x128.

    Raises UsageError if the text is neither a known name nor factors.
    """
    if model in MODELS:
        return MODELS[model]
    factors = model.split("x")
    if not all(factor.isascii() and factor.isdigit() and len(factor) < 10 for factor in factors):
        known = unknown("model", model, MODELS)
        raise UnknownName(f"{known}, or give factors: keys and values x layers x heads x head size, such as 2x32x8x128")
    found = 1
    for factor in factors:
        found *= int(factor)
    if not 0 < found <= LARGEST:
        raise UsageError(f"model {shown(model)} has {found:,} elements per token; give 1 to {LARGEST:,}")
    return found


def recorded(path: str, tokens: int) -> Iterator[list[int]]:
    """Yield the requests of a trace in Mooncake's format, in blocks of `tokens` tokens.

    The trace's own block size follows from its first request of at least two blocks: the power of two that gives that many blocks.
    The number of a block of the trace represents all text up to its end, so a longer block has its last block's number.

    Raises UsageError for a file that cannot be read, or a line that is not a request (named, with its line).
    """
    name = pathlib.Path(path).name
    own = 0
    waiting: list[tuple[int, int, list[int]]] = []  # requests of one block, before the first longer request
    for number, length, blocks in _lines(path, name):
        if not own and len(blocks) < 2:
            waiting.append((number, length, blocks))
            continue
        if not own:
            own = _block_of(length, len(blocks))
            for held in waiting:
                yield _cut(*held, own, tokens, name)
        yield _cut(number, length, blocks, own, tokens, name)
    if not own:
        for held in waiting:
            yield _cut(*held, TRACE_BLOCK, tokens, name)


def _block_of(length: int, count: int) -> int:
    """Return the power of two by which `length` tokens make `count` blocks; 0 if no power of two does."""
    size = 1 << max((length // count).bit_length() - 1, 0)
    return next((block for block in (size, 2 * size) if -(-length // block) == count), 0)


def _lines(path: str, name: str) -> Iterator[tuple[int, int, list[int]]]:
    """Yield (line number, tokens, block numbers) of each request of a trace."""
    number = 0
    try:
        with open(path, encoding="utf-8") as file:
            while line := file.readline(LONGEST_LINE):
                number += 1
                if line.strip():
                    yield (number, *_request(line, f"{name}:{number}"))
    except OSError as error:
        raise UsageError(f"cannot read {path!r}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name}:{number + 1}: not UTF-8 text; give a trace of one JSON object a line") from None
    except ValueError:  # the path has a NUL character
        raise UsageError(f"cannot read {path!r}: the path has a NUL character; remove the character") from None


def _request(line: str, where: str) -> tuple[int, list[int]]:
    """Return the tokens and the block numbers of one line."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise UsageError(
            f"{where}: {shown(line.strip())} is not a JSON object; write each line as one request with input_length and hash_ids"
        ) from None
    if not isinstance(found, dict):
        raise UsageError(f"{where}: a request is a JSON object with input_length and hash_ids, not {shown(found)}")
    for key in ("input_length", "hash_ids"):
        if key not in found:
            raise UsageError(f"{where}: the request has no {key!r}; a request has input_length and hash_ids")
    length, blocks = found["input_length"], found["hash_ids"]
    if not _whole(length):
        raise UsageError(f"{where}: input_length is {shown(length)}; it must be a whole number of tokens, 0 or more")
    if not isinstance(blocks, list) or not all(_whole(block) for block in blocks):
        raise UsageError(f"{where}: hash_ids is {shown(blocks)}; it must be a list of whole numbers, 0 or more")
    return length, blocks


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _cut(number: int, length: int, blocks: list[int], own: int, tokens: int, name: str) -> list[int]:
    """Return a request's full blocks of `tokens` tokens from its blocks of `own` tokens."""
    if not own or -(-length // own) != len(blocks):
        size = (
            f"blocks of {own} tokens make {-(-length // own):,}"
            if own
            else "no power of two as the block size gives that number of hash_ids"
        )
        raise UsageError(f"{name}:{number}: {len(blocks):,} hash_ids for {length:,} tokens; {size}")
    if max(own, tokens) % min(own, tokens):
        raise UsageError(f"tokens = {tokens}; {name} has blocks of {own} tokens: give a divisor or a multiple of {own}")
    parts = max(own // tokens, 1)
    ends = range(tokens - 1, length, tokens)
    return [blocks[end // own] * parts + end % own // tokens for end in ends]


def conversations(requests: int, tokens: int, prompt: int, again: int, gap: int, seed: int) -> Iterator[list[int]]:
    """Yield `requests` requests of conversations that take turns, in blocks of `tokens` tokens.

    A conversation begins with a text common to all, then a prompt of log-normal length.  Each turn repeats the text so far and
    adds to it; some turns first cut the text.  The chance to go on differs by conversation (beta distribution).

    `prompt` and `gap` are medians: tokens of a first prompt, and requests between two turns of a conversation.  In the long run
    `again` per cent of the requests are not the first of their conversation.
    """
    random = np.random.default_rng(seed)
    # a conversation's mean number of turns is (a + b - 1) / (b - 1)
    b = 1 + (1 - again / 100) * (LOYALTY - 1)
    due: list[tuple[int, int, int, float, list[int]]] = []  # heap: next and last request, tokens, chance, blocks
    fresh = SYSTEM // tokens  # the next unused block number
    shared = range(fresh)
    for now in range(requests):
        if due and due[0][0] <= now:
            _, _, length, chance, blocks = heapq.heappop(due)
            if random.random() < EDITED:
                length = int(length * random.random() ** EDITED_POWER)
            kept = blocks[: max(length // tokens, len(shared))]
            length += int(random.lognormal(np.log(TURN), TURN_SPREAD))
        else:
            length = 1 + int(random.lognormal(np.log(prompt), PROMPT_SPREAD))
            chance, kept = random.beta(LOYALTY - b, b) if again else 0.0, list(shared)
        length = min(length, MOST_TOKENS)
        count = length // tokens
        blocks = [*kept[:count], *range(fresh, fresh + count - len(kept))]
        fresh += max(count - len(kept), 0)
        yield blocks
        if random.random() < chance:
            later = now + max(1, int(random.lognormal(np.log(gap), GAP_SPREAD)))
            heapq.heappush(due, (later, now, length, chance, blocks))


class Served(NamedTuple):
    """Result of one request to the cache."""

    read: list[int]  # slots of the blocks that were found, in order
    written: list[int]  # slots of the blocks that were stored
    evicted: int  # number of `written` slots that held another block: the last slots of `written`


class Cache:
    """Blocks in slots; the least recently used block gives its slot to a new block."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.slot: OrderedDict[int, int] = OrderedDict()

    def serve(self, blocks: list[int]) -> Served:
        """Read the blocks up to the first missing block, and store all missing blocks from there on."""
        slot = self.slot
        found = 0
        while found < len(blocks) and blocks[found] in slot:
            found += 1
        read = [slot[block] for block in blocks[:found]]
        # LMCache touches found blocks from last to first, so that a text's end is evicted before its beginning
        for block in reversed(blocks[:found]):
            slot.move_to_end(block)
        written: list[int] = []
        evicted = 0
        for block in blocks[found:]:
            if block in slot:  # stored already, but computed again because a block before it was missing
                slot.move_to_end(block)
                continue
            if len(slot) < self.slots:
                place = len(slot)
            else:
                _, place = slot.popitem(last=False)
                evicted += 1
            slot[block] = place
            written.append(place)
        return Served(read, written, evicted)
