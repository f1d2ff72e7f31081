"""An event loop for a whole program or thread, which ends although something in it does not.

`asyncio.Runner` waits without limit for tasks that swallow their cancellation, such as a tool or a model with a bare
`except` in a loop. When its work is done, such a task must not keep the program alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)
PATIENCE = 2.0
"""Seconds that tasks have to end once they are cancelled."""


@contextlib.contextmanager
def ending_runner(loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> Iterator[asyncio.Runner]:
    """An `asyncio.Runner` that abandons what does not end within `PATIENCE` of its cancellation."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        try:
            yield runner
        finally:
            runner.run(_end_tasks())


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    _, deaf = await asyncio.wait(tasks, timeout=PATIENCE)
    for task in deaf:
        log.warning("%s goes on although it was cancelled; it is abandoned", task.get_name())
        # The runner waits for every registered task.
        asyncio.tasks._unregister_task(task)
