"""`local/…`: a model whose server is started by the first question that it is asked, and stopped with the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rollout.models.local.server import LocalServer
from rollout.models.model import Capability, Model, Request
from rollout.trajectories.generation import Generation


class LocalServerModel:
    """Starts `server` when first asked; then it is the direct path like any other."""

    def __init__(
        self,
        name: str,
        server: LocalServer,
        connect: Callable[[str], Model],
        capabilities: frozenset[Capability],
    ) -> None:
        """`capabilities`: those of what `connect` makes, which are asked for before the server runs."""
        self.name = name
        self.capabilities = capabilities
        self._server = server
        self._connect = connect
        self._model: Model | None = None
        self._starting = asyncio.Lock()

    async def generate(self, request: Request) -> Generation:
        if self._model is None:
            async with self._starting:
                if self._model is None:
                    await self._server.__aenter__()
                    if request.messages and request.messages[0].role == "system":
                        # Every conversation begins with it; read once here, not once in each of the server's slots.
                        await self._server.warm(request.messages[:1])
                    self._model = self._connect(self._server.url)
        return await self._model.generate(request)

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()
            self._model = None
            await self._server.__aexit__(None, None, None)
