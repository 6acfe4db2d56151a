"""Page-size policies: which pages the bytes of a file lie in.  One file a policy; `scmsim.alloc.pages` carries them out."""
