"""The agent `look_first`: looks at the display by itself, then lets its model work."""

import rollout


async def look_first(task: rollout.Task, session: rollout.Session) -> None:
    await session.call("look")
    while (await session.generate()).tool_calls:
        await session.call()
