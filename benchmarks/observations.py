"""What a page costs in each observation mode: characters, tokens, and the time to observe it.

    python -m benchmarks.observations

Pages of the shipped sites, each observed `--times` times without anything done to it. Text is counted as one token for
four characters, and a screenshot as one token for each 28 by 28 pixels, as vision-language models of the Qwen family do
(both are rules of thumb). The time is the median of a step that does nothing: settling, of which `quiet` alone is
60 ms, listing, screenshot.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import get_args

import msgspec

from rollout.config.browsing import WebMode, WebSettings
from rollout.core.task import Task
from rollout.core.world import Invocation
from rollout.environments.web.browsers import BrowserPool
from rollout.environments.web.sites import Sites, load_sites
from rollout.environments.web.world import BrowserWorld

PAGES = {
    "shop, home": "http://shop.test/",
    "shop, search": "http://shop.test/search?q=tea",
    "wiki, home": "http://wiki.test/",
    "booking, home": "http://booking.test/",
    "tracker, sign-in": "http://tracker.test/",
}
PATCH = 28


class Cost(msgspec.Struct, frozen=True):
    """One page in one mode."""

    characters: int
    image_tokens: int
    seconds: float

    @property
    def tokens(self) -> int:
        return round(self.characters / 4) + self.image_tokens


async def measure(pool: BrowserPool, sites: Sites, url: str, mode: WebMode, times: int) -> Cost:
    """Observe a page again and again."""
    settings = WebSettings(mode=mode)
    world = BrowserWorld(pool, settings, sites)
    try:
        opening = await world.open(Task("page", info={"start_url": url}), 1)
        assert opening.observation is not None
        taken = []
        for number in range(times):
            begun = time.perf_counter()
            await world.call([Invocation(f"c{number}", "wait", {"seconds": 0.001})])
            taken.append(time.perf_counter() - begun)
    finally:
        await world.close()
    image = round(settings.width / PATCH) * round(settings.height / PATCH) if opening.images else 0
    return Cost(len(opening.observation.content or ""), image, statistics.median(taken))


async def run(times: int) -> None:
    """Print a row for each page and mode."""
    modes: tuple[WebMode, ...] = get_args(WebMode)
    sites = load_sites(("shop", "wiki", "booking", "tracker"))
    print("| page | " + " | ".join(modes) + " |\n|---|" + "---|" * len(modes))
    try:
        async with BrowserPool() as pool:
            for name, url in PAGES.items():
                costs = [await measure(pool, sites, url, mode, times) for mode in modes]
                cells = (f"{cost.tokens:,} tokens, {cost.seconds * 1e3:.0f} ms" for cost in costs)
                print(f"| {name} | {' | '.join(cells)} |", flush=True)
    finally:
        await sites.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=15)
    asyncio.run(run(parser.parse_args().times))


if __name__ == "__main__":
    main()
