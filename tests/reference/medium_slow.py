"""What reaches persistent memory: the reference implementation of scmsim.medium.model, in dictionaries and single lines.

A CPU cache keeps dirty lines, one for each remainder of the line number by 4096; the device has a write buffer with one
granule for each remainder by its number of granules. A granule that is written whole by one write-back costs itself; one
that is written in part costs nothing more while it is in the buffer. A non-temporal store of at most 256 bytes misses the
buffer unless its first granule of 256 bytes is the last that a non-temporal store wrote in its place. A load run waits at
its first line (strided: in each page) unless that was the first line of a run loaded or stored by the cache before, as far
as 4096 of these are kept.
"""

from collections import Counter

LINE, SLOTS = 64, 4096
GRANULES = (64, 256, 4096)


class Medium:
    """Device with a write buffer of `buffer_bytes`; `count` and `stored` (by kind) hold what was accounted for.

    The kernel differs in two points, each shown by a test: `nt_cleans` False (a line that non-temporal stores replace
    stays dirty) and `at_least` 1 (a buffer smaller than a granule holds one nevertheless).
    """

    def __init__(self, kinds, buffer_bytes, nt_cleans=True, at_least=0):
        self.kinds, self.nt_cleans = kinds, nt_cleans
        self.dirty: dict[int, int] = {}
        self.recent: dict[int, int] = {}
        self.buffer: dict[int, dict[int, int]] = {granule: {} for granule in GRANULES}
        self.slots = {granule: max(at_least, min(64, power_of_two(buffer_bytes // granule))) for granule in GRANULES}
        self.streamed: dict[int, int] = {}
        self.count: Counter = Counter()
        self.stored: Counter = Counter()
        self.written: list[int] = []  # lines in the order in which they were written back

    def event(self, code, site, space, addr, length, width, counted):
        """Account for one event, whose codes are names."""
        if length <= 0:
            return
        before = self.count.copy()
        lines = range(addr // LINE, (addr + length - 1) // LINE + 1)
        if code == "FENCE":
            self.count["fences"] += length
        elif code == "FLUSH" and width < 0:  # strided: -width bytes in each page of the run
            for page in range(addr // 4096, (addr + length - 1) // 4096 + 1):
                self.event(code, site, space, page * 4096 + addr % 4096, -width, 0, True)
        elif code == "FLUSH":
            self.count["flushes"] += len(lines) * max(1, width)
            if space == "pm":
                self._flush(lines)
        elif space == "pm" and code == "LOAD":
            self.count["pm_loaded_bytes"] += moved(addr, length, width)
            pages = range(addr // 4096, (addr + length - 1) // 4096 + 1) if width < 0 else [addr // 4096]
            for line in [(page * 4096 + addr % 4096) // LINE for page in pages]:
                self.count["pm_dependent_loads"] += self.recent.get(line % SLOTS) != line
                self.recent[line % SLOTS] = line
        elif space == "pm" and code in ("STORE", "NTSTORE"):
            self._store(code, addr, length, width)
            if counted:
                self.stored[self.kinds[site]] += moved(addr, length, width)
        if not counted:
            self.count = before

    def _store(self, code, addr, length, width):
        self.count["pm_stored_bytes"] += moved(addr, length, width)
        if code == "NTSTORE":
            self.count["nt_stored_bytes"] += moved(addr, length, width)
            if self.nt_cleans:
                for line in range(addr // LINE, (addr + length - 1) // LINE + 1):
                    if self.dirty.get(line % SLOTS) == line:
                        del self.dirty[line % SLOTS]
            if self.slots[256]:
                if length <= 256 and self.streamed.get(addr // 256 % self.slots[256]) != addr // 256:
                    self.count["write_buffer_misses"] += 1
                    self.count["write_buffer_miss_lines"] += (addr + length - 1) // LINE - addr // LINE + 1
                last = (addr + length - 1) // 256
                self.streamed[last % self.slots[256]] = last
            self._write_back(addr, addr + length)
            self.recent.pop(addr // LINE % SLOTS, None)
            return
        self.recent[addr // LINE % SLOTS] = addr // LINE
        touched = set()
        for first, size in pieces(addr, length, width):
            touched.update(range(first // LINE, (first + size - 1) // LINE + 1))
        for line in sorted(touched):
            old = self.dirty.get(line % SLOTS)
            if old is not None and old != line:
                self._write_back(old * LINE, old * LINE + LINE)
            self.dirty[line % SLOTS] = line

    def _flush(self, lines):
        """Dirty lines go to the device, neighbours together."""
        run: list[int] = []
        for line in lines:
            if self.dirty.get(line % SLOTS) == line:
                del self.dirty[line % SLOTS]
                run.append(line)
            elif run:
                self._write_back(run[0] * LINE, run[-1] * LINE + LINE)
                run = []
        if run:
            self._write_back(run[0] * LINE, run[-1] * LINE + LINE)

    def _write_back(self, start, stop):
        self.written += range(start // LINE, (stop - 1) // LINE + 1)
        self.count["lines_written_back"] += (stop - 1) // LINE - start // LINE + 1
        for granule in GRANULES:
            for g in range(start // granule, (stop - 1) // granule + 1):
                whole = start <= g * granule and (g + 1) * granule <= stop
                self.count[f"media_bytes_{granule}"] += granule * (whole or self._enters(granule, g))

    def _enters(self, granule, g):
        """Whether a granule written in part is not in the write buffer yet; then it is from now on."""
        slots = self.slots[granule]
        if slots == 0:
            return True
        buffer = self.buffer[granule]
        fresh = buffer.get(g % slots) != g
        buffer[g % slots] = g
        return fresh


def power_of_two(n):
    """Largest power of two that is at most n; 0 for 0."""
    return 1 << (n.bit_length() - 1) if n else 0


def pieces(addr, length, width):
    """The (address, bytes) that a run stores to: all of it, or -width bytes in each page, where its start lies."""
    if width >= 0 or (addr + length - 1) // LINE - addr // LINE < 64:
        return [(addr, length)]
    first, last = addr // 4096, (addr + length - 1) // 4096
    return [(page * 4096 + addr % 4096, -width) for page in range(first, last + 1)]


def moved(addr, length, width):
    """Bytes that a run moves."""
    if width >= 0:
        return length
    return -width * ((addr + length - 1) // 4096 - addr // 4096 + 1)
