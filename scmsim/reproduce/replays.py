"""Replays of the reproduction, without footprints, because the documents' rows were evaluated that way.

docs/validation/reproduce.md describes the effect.
"""

import functools

from scmsim import footprint, pipeline

replay = functools.partial(pipeline.replay, footprints=footprint.NONE_AT_ALL)
