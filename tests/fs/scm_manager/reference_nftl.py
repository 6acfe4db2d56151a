"""Model an NFTL with sets of sectors: the written pages of an erase unit and of its one replacement unit.

Source: Linux 2.6.24 drivers/mtd/nftlcore.c: a page is written to the first unit of its chain where it is clean; a chain is
folded into its last unit.
"""


class Nftl:
    """The erase units of 32 sectors; `chains[unit]` is a list of sets of written pages, the oldest unit first."""

    def __init__(self, spare, formatted):
        self.spare, self.formatted = spare, formatted
        self.chains, self.fold_cursor = {}, 0
        self.programs = self.erases = 0

    def fold(self, unit):
        """Copy the pages that the last unit of a chain lacks to it; return the bytes copied."""
        chain = self.chains[unit]
        written = set().union(*chain)
        copies = len(written - chain[-1])
        self.spare += len(chain) - 1
        self.erases += len(chain) - 1
        self.programs += copies
        self.chains[unit] = [written]
        return 512 * copies

    def write(self, sector):
        """Write a sector; return the bytes that a fold copied for it."""
        unit, page, moved = sector // 32, sector % 32, 0
        if unit not in self.chains:
            self.chains[unit] = [set(range(32)) if unit * 16384 < self.formatted else set()]
        chain = self.chains[unit]
        if all(page in one for one in chain) and len(chain) == 2:
            moved += self.fold(unit)
            chain = self.chains[unit]
        if all(page in one for one in chain):
            if self.spare == 0:
                raise AssertionError("a case for another test")
            self.spare -= 1
            chain.append(set())
        next(one for one in chain if page not in one).add(page)
        self.programs += 1
        return moved
