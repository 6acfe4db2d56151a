"""Which row of the counters each event goes to: (operation or file of its cause) x (site), or the row that counts nothing."""

from scmsim._jit import kernel


@kernel
def assign_bins(events, n, first_row, trash, bins):
    """bins[k] = first_row[op of event k] + its site, or `trash` where first_row is negative (SETUP operations)."""
    for k in range(n):
        e = events[k]
        row = first_row[e.op]
        bins[k] = trash if row < 0 else row + e.site
