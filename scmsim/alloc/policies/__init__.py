"""Page-size policies: which page sizes files use.  One module per policy; `scmsim.alloc.pages` applies them."""
