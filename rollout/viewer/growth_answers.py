"""Responses about growths, and about conversations in which a person plays a role."""

from __future__ import annotations

from rollout.pipelines.people.growth import Growth
from rollout.pipelines.people.live_attempts import RequestedAttempt, live_trajectory, requested_attempts
from rollout.pipelines.runs.transcript import make_transcript
from rollout.store.reading.reader import JournalReader
from rollout.viewer.answers.people import GrownAttempt, GrowthAnswer
from rollout.viewer.answers.plays import Play
from rollout.viewer.editor import RunEditor
from rollout.viewer.open_runs import OpenRun
from rollout.viewer.pages.trajectory_page import page_message


def shown_growth(editor: RunEditor, journal: JournalReader, growth: Growth) -> GrowthAnswer:
    """A growth with the state of each of its attempts."""
    return GrowthAnswer(
        number=growth.number,
        dataset=growth.dataset,
        task_id=growth.task_id,
        id=growth.trajectory,
        message=growth.message,
        n=growth.count,
        model=growth.model,
        user_model=growth.user_model,
        temperature=growth.temperature,
        author=growth.author,
        at=growth.at,
        role=growth.part,
        state=editor.state(journal, growth),
        error=editor.error(journal, growth),
        attempts=tuple(map(_shown_attempt, requested_attempts(journal, growth))),
    )


def _shown_attempt(attempt: RequestedAttempt) -> GrownAttempt:
    head = attempt.head
    return GrownAttempt(
        id=attempt.id,
        state=attempt.state,
        messages=attempt.messages,
        status=None if head is None else head.status,
        success=None if head is None or not head.scored else head.success,
        reward=None if head is None else head.reward,
    )


def shown_play(run: OpenRun, editor: RunEditor, journal: JournalReader, growth: Growth) -> Play:
    """The present state of a conversation in which a person plays a role."""
    assert growth.part is not None
    trajectory, path = live_trajectory(journal, growth)
    spoken = [node for node in path if node[1].said is not None]
    opening = len(trajectory.messages) - len(spoken)
    state, waits_for = editor.state(journal, growth), editor.waits_for(growth)
    task = run.tasks.find(growth.dataset, growth.task_id)
    return Play(
        number=growth.number,
        dataset=growth.dataset,
        task_id=growth.task_id,
        id=trajectory.id,
        role=growth.part,
        state=state,
        waits_for=waits_for,
        brief=task.user_system_prompt or None if task is not None and growth.part == "user" else None,
        system=editor.person(growth).system if waits_for == "agent" == growth.part else None,
        messages=tuple(
            page_message(message, spoken[message.index - opening] if message.index >= opening else None)
            for message in make_transcript(trajectory).messages
        ),
        tools=tuple(editor.person(growth).tools) if waits_for == "agent" == growth.part else (),
        error=editor.error(journal, growth),
    )
