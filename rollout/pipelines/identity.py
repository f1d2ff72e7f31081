"""Whether a run directory holds the same run: what shapes its data may not have changed since it was begun."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rollout.core.errors import JournalError
from rollout.core.secrets import redact
from rollout.engine.plan import Plan
from rollout.store.damage import damaged
from rollout.store.reading.reader import JournalReader


def identity_key(plan: Plan) -> str:
    """Where the journal keeps what shapes a dataset's data."""
    return f"identity:{plan.name}"


def encoded_identity(plan: Plan) -> str:
    """What shapes a dataset's data, as the journal keeps it."""
    return redact(msgspec.json.encode(plan.identity, order="sorted").decode())


def refuse_other_run(journal: JournalReader, plan: Plan, run_dir: Path) -> bool:
    """Raise JournalError where a dataset was begun with other settings, or wrote to another file. Returns whether it
    was begun at all."""
    before = journal.meta(identity_key(plan))
    if before is None:
        return False
    now = encoded_identity(plan)
    if before != now:
        old, new = journal.document(identity_key(plan)) or {}, msgspec.json.decode(now)
        changed = [
            f"{name} was {old.get(name)!r}, is {new.get(name)!r}"
            for name in {**old, **new}
            if old.get(name) != new.get(name)
        ]
        raise JournalError(
            f"{run_dir}: dataset {plan.name!r} was begun with other settings: {'; '.join(changed)}. "
            "Start again (--no-resume, in Python resume=False; the old run is moved aside), or use another folder "
            "(run_dir, or --output)"
        )
    output = journal.meta(f"output:{plan.name}")
    if output is None:
        raise damaged(run_dir, f"the output file of {plan.name} is missing")
    if output != str(plan.output_path.resolve()):
        raise JournalError(
            f"{run_dir}: dataset {plan.name!r} wrote to {output} before and now has "
            f"{plan.output_path.resolve()}. "
            "Put it back, start again (--no-resume, in Python resume=False), or choose another run_dir"
        )
    return True
