"""Independent reference of `scmsim.system`: what comes before each event, as lists of tuples, one event at a time."""

import math

SMALL = 12


class Surroundings:
    """`system` is a system's table; `second` instructions of a second; `tick` touches of (address, log2 of the page, store)."""

    def __init__(self, system, second, pcid, tick, trash):
        self.system, self.pcid, self.tick, self.trash = system, pcid, tick, trash
        self.every = {
            "tick": round(1000 * second / system["hz"]) if system["hz"] else math.inf,
            "slice": round(1000 * second * system["slice_us"] / 1e6) or math.inf,
        }
        self.since = dict.fromkeys(self.every, 0)
        self.call = self.space = None

    def tables(self, space):
        if self.system["kpti"] and not self.pcid:
            return ("INVALIDATE", -(1 << 40), 1 << 40, 1)
        return ("INVALIDATE", 0, 0, space)

    def pages(self, which):
        origin = {"program_pages": 3 << 45, "other_pages": 7 << 44}[which]
        return [("LOAD", origin + 4096 * n, 1, 0) for n in range(self.system[which])]

    def before(self, event, row):
        """What comes before an event, as (what, row)."""
        found = []
        if row == self.trash:
            return found
        kpti = self.system["kpti"]
        if event["op"] != self.call:
            if kpti or self.space is None:
                found.append((self.tables(1), row))
            found += [(page, row) for page in self.pages("program_pages")]
            if kpti:
                found.append((self.tables(2), row))
            self.call, self.space = event["op"], 2 if kpti else 1
        if self.since["tick"] >= self.every["tick"]:
            self.since["tick"] -= self.every["tick"]
            found += [(("STORE" if store else "LOAD", vaddr, 1, 0), row) for vaddr, _, store in self.tick]
        if self.since["slice"] >= self.every["slice"]:
            self.since["slice"] = 0
            slice_ = [self.tables(3), *self.pages("other_pages"), self.tables(self.space)]
            found += [(what, self.trash) for what in slice_]
        for kind in self.since:
            self.since[kind] += instructions(event)
        return found


def instructions(event):
    """In thousandths."""
    if event["code"] == "WORK":
        return event["addr"]
    bulk = event["code"] in ("LOAD", "STORE", "NTSTORE") and event["width"] > 0
    return 1000 * (event["length"] // event["width"]) if bulk else 0


def rep_strings(system, clears, moves, page_bytes, events):
    """(Loads, stores, more look-ups of loads, of stores) that rep-strings add; an event has the name of its site."""
    counted, more = {"LOAD": 0, "STORE": 0}, {"LOAD": 0, "STORE": 0}
    for event in events:
        site, n, code = event["site"], event["length"], event["code"]
        if event["width"] != 0 or n < 64 or code not in counted or site not in {*clears, *moves}:
            continue
        every = system["rep_clear_bytes"] if site in clears else 2 * system["rep_copy_bytes"]
        counted[code] += round(1000 * n / every) if every else 0
        if system["rep_lookup_bytes"]:
            pages = {at // page_bytes for at in range(event["vaddr"], event["vaddr"] + n)}
            more[code] += max(0, math.ceil(n / system["rep_lookup_bytes"]) - len(pages))
    return *counted.values(), *more.values()
