"""Page sizes of a file's mapping, their reasons and costs: for a file on this machine, or a trace's files on a model."""
