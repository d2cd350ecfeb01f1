"""Streams end with CREDENTIALS_EXPIRED when their callers' credentials expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.rpc import calls
from topicpolicies_server.rpc.calls import LAST_SECONDS, Call

PATIENCE = 20.0
"""Seconds for which tokens are valid here: their expiry is checked to a fraction of a second."""


class Peer:
    """A watch whose credentials expire, and how it ends."""

    def __init__(self, *, reads: bool = True) -> None:
        self._reads = reads
        self.ended_with: PolicyError | None = None
        self.task = asyncio.create_task(self._run())

    def invocation_metadata(self) -> tuple[()]:
        """Returns no metadata."""
        return ()

    async def write(self, _: object) -> None:
        """Returns at once, or never."""
        if not self._reads:
            await asyncio.Event().wait()

    async def _run(self) -> None:
        call = Call("WatchPolicies", self)
        call.caller = Caller("alice", Way.CERTIFICATE, expires_at=time.time() + 3600)
        call.ends_with_credentials()
        try:
            while True:
                await call.write(b"")
                await asyncio.sleep(0.01)
        except PolicyError as error:
            self.ended_with = error
        except asyncio.CancelledError:
            self.ended_with = call.why_cancelled()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Returns a function that sets the system's clock forward."""
    real = time.time
    monkeypatch.setattr(calls, "_CLOCK_SECONDS", 0.02)
    return lambda seconds: monkeypatch.setattr(time, "time", lambda: real() + seconds)


async def test_a_stream_ends_if_the_clock_is_set_to_after_its_expiry(clock: Callable[[float], None]) -> None:
    peer = Peer()
    await asyncio.sleep(0.1)
    assert not peer.task.done()
    clock(3601)
    async with asyncio.timeout(PATIENCE):
        await peer.task
    assert peer.ended_with is not None and peer.ended_with.message == "The client certificate has expired: call with a new one."


async def test_a_stream_whose_peer_does_not_read_ends_without_a_status_after_a_while(clock: Callable[[float], None]) -> None:
    peer = Peer(reads=False)
    await asyncio.sleep(0.1)
    clock(3601)
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await peer.task
    assert time.monotonic() >= began + LAST_SECONDS - 0.1
