"""SplitFS: its logs are stored in the order of the source, but its recovery, and what a relink leaves where, are not modelled.
Units: none.
Source: SplitFS splitfs/{log.c,fileops_nvp.c}, kernel fs/ext4/move_extent.c; docs/validation-splitfs.md (what is not followed).
"""

SUMMARY = "SplitFS: the replay of its append and operation logs is not modelled, nor which blocks a relink exchanges"
MODELS = ("splitfs",)
NONE = (
    "its recovery replays the append and operation logs into staging files, and the model follows neither that replay nor which "
    "block of an exchanged pair a file has after a relink; its kernel part is checked as 'ext4-dax'"
)
