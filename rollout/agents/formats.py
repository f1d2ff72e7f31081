"""The dialects by name, as configurations and saved trajectories have them."""

from __future__ import annotations

from rollout.agents.computer_use import ComputerUseDialect
from rollout.agents.dialects import Dialect, NativeDialect, TextDialect

DIALECTS = {dialect.name: dialect for dialect in (NativeDialect, TextDialect, ComputerUseDialect)}


def make_dialect(name: str, *, must_call: bool = False) -> Dialect:
    """The dialect of this name; an unknown one is read as native. `must_call`: answers in words alone are refused."""
    return DIALECTS.get(name, NativeDialect)(must_call=must_call)
