"""This is about doing things side by side: the first failure ends the rest and is the one heard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable


async def together(work: Iterable[Coroutine[object, object, None]]) -> None:
    """Wait for all of `work`; when one fails, end the others and raise its error, bare.

    A task group would wrap it: `Lost` must reach whoever decides what a lost lane means as `Lost`.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
