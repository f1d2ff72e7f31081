"""Python's garbage collector while a run goes on.

A full collection walks every live object: 30 ms at 128 live episodes, during which nothing else happens. Nearly nothing
here is cyclic garbage (records hold no cycles and are not tracked), so collections may be rare. What was loaded before
the run is left out of them altogether.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

RARE = (50_000, 20, 50)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect rarely inside the block, as before after it."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*RARE)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
