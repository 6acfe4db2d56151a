"""Build hook of hatchling: tag a wheel by its compiled kernels, so that pip chooses between the pure and the compiled wheel.

A wheel without kernels is `py3-none-any`.  One with kernels is for the versions of Python that compiled them and for Linux on
x86-64; where both are on offer, pip prefers it.  Its code needs no library of the system, so it names an old manylinux.
"""

import os
import pathlib
import re
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = "scmsim/jit/compiled"  # which git ignores; tools/wheel.py makes it
PURE = "SCMSIM_PURE_WHEEL"  # if this variable is set, kernels are left out


class KernelsTag(BuildHookInterface):
    """The hook; hatchling finds it as the only one in this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the kernels and the tag to what hatchling builds."""
        folders = sorted(pathlib.Path(self.root, KERNELS).glob("cpython-*"))
        if version == "editable" or not folders or os.environ.get(PURE):
            return
        pythons = dict.fromkeys(f"cp{re.match(r'cpython-([0-9]+)', folder.name)[1]}" for folder in folders)
        build_data["artifacts"].append(KERNELS)
        build_data["pure_python"] = False
        build_data["tag"] = f"{'.'.join(pythons)}-none-manylinux_2_17_x86_64"
