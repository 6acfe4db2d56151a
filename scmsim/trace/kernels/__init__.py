"""Parse text and follow calls with compiled kernels; a separate folder, because editing one recompiles all kernels."""
