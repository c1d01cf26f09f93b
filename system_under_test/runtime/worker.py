"""A worker without a thread of its own: it passes jobs to the executor of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from staticfire.system_under_test.runtime.env import File


class ExecutorWorker:
    """The Worker of `Env` in simulations, and for jobs too rare to deserve a thread of their own."""

    def run(
        self,
        job: Callable[[], None],
        done: Callable[[BaseException | None], None],
        *,
        only_synced: File | None = None,
    ) -> None:
        """See Worker."""

        def settle(future: asyncio.Future[None]) -> None:
            if not future.cancelled():
                done(future.exception())

        asyncio.get_running_loop().run_in_executor(None, job).add_done_callback(settle)

    def close(self) -> None:
        """See Worker. The executor belongs to the loop."""
