"""The base class of configuration sections, as the schema imports it."""

from __future__ import annotations

from rollout.core.section import Section

__all__ = ["Section"]
