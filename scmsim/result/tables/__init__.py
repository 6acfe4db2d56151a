"""Parts of the tables for readers: their layout, the breakdowns, and the sentences of summary."""
