"""Which page size a mapping of a file gets, why, and what it costs: of a file on this machine, or of a trace's files on a model."""
