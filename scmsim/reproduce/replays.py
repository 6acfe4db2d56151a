"""Replays of the reproduction: without the kernel's own memory in the TLB, since the documents' rows were judged so.

docs/reproduce.md says what it changes.
"""

import functools

from scmsim import footprint, pipeline

replay = functools.partial(pipeline.replay, footprints=footprint.NONE_AT_ALL)
