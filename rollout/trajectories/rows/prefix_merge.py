"""The form `prefix_merge`: rows that are as long as can be.

Exchanges are put into one row until the prefix breaks (`breaks`), so a conversation that only grew is one row and none
of its tokens comes twice.
"""

from __future__ import annotations

from typing import ClassVar

from rollout.trajectories.rows.form import RecordMaker, RowForm, TokenChoice
from rollout.trajectories.rows.row_maker import RowMaker


class PrefixMerge(RowForm):
    """Exchanges with the model for as long as each request begins with the one before it and its answer."""

    has_advantages: ClassVar[bool] = True

    def maker(self, tokens: TokenChoice) -> RecordMaker:
        return RowMaker(tokens.has_ids(tokens.any_ids), tokens.tokenizer, tokens.image_column)
