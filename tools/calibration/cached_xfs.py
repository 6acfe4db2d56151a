"""Provide the page-cache priors of the fit of fs/xfs/costs/xfs-6.1.toml, which starts from xfs-dax' names and log on 6.1.

The priors are differences of the cells of 1, 16 and 256 KiB of tests/verification/data/measured_610.csv, costs of ext4 on 6.1, or
estimates; tools/calibration/kernels.py fits from them.
"""

# cost: (instructions, loads, stores)
PRIORS = {
    "cache_write_call": (1938.3, 609.9, 369.3),
    "cache_page": (848.7, 244.9, 129.9),
    "cache_page_new": (2453.5, 661.2, 401.4),
    "cache_page_dirty": (631.1, 181.2, 104.3),
    "reserve": (1500, 450, 300),
    "cache_read_call": (1303.0, 394.1, 229.5),
    "cache_read_page": (285.7, 68.7, 36.9),
    "cache_fill_page": (273, 75, 38),
    "flush_call": (4362.6, 1338.9, 863.7),
    "flush_page": (3262.9, 781.5, 405.6),
    "flush_run": (3000, 900, 550),
    "convert": (3000, 900, 550),
    "free_page": (2362.5, 598.5, 335.8),
}
