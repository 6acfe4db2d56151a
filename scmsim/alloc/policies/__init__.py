"""Page-size policies, one module each: a policy chooses the page sizes of files, and `scmsim.alloc.pages` applies it."""
