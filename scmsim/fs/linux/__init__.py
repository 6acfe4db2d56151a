"""Parts that ext4, ext2, XFS, tmpfs and SplitFS share: Linux's page cache, its DAX path and the calls above them."""
