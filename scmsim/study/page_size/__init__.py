"""Report the page sizes of a file's mapping, with reasons and costs, for a file on this machine or a trace on a model."""
