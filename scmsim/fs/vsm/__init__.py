"""VSM: virtual superpages on PMFS."""
