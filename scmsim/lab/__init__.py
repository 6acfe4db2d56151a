"""Emulated machine that runs the real kernel's file system and counts its work; needs no PMU and no persistent memory."""
