"""Model of VSM: virtual superpages on PMFS."""
