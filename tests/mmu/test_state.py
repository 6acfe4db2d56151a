"""Check the record of an MMU's state: names of fields, alignment, and a page record for each event code."""

import numpy as np

from scmsim import mmu
from scmsim.core.records import EVENTS
from scmsim.mmu import state


def _fields(dtype):
    for name in dtype.names or ():
        yield name
        yield from _fields(dtype.fields[name][0].base)


def test_no_field_hides_behind_a_numpy_attribute():
    assert not [field for field in _fields(state.MMU) if hasattr(np.void, field)]


def test_the_pool_is_aligned_to_cache_lines():
    assert state.empty().ctypes.data % 64 == 0 and state.MMU.fields["tag"][1] == 0


def test_every_event_code_has_a_page_record():
    pages = mmu.machine("i7-8700k")["page"][0]
    assert pages.shape[0] == len(EVENTS)
    assert (pages["leaf"] > 0).all()
