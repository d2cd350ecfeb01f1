"""The garbage collector of a server process: the objects of its start are not examined again, and collections are rare."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

from tests.namespaces.bench import NAMESPACE
from topicpolicies_server.config import Address, EmbeddedLogConfig, ServerConfig
from topicpolicies_server.process import MIDDLE, OLDEST, YOUNGEST, run
from topicpolicies_server.rpc.server import Server


@pytest.fixture(autouse=True)
def aside() -> Iterator[None]:
    """Sets the objects of the test process aside again after each test, and tunes the collector as before."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.enable()
    gc.freeze()


async def test_a_server_that_is_embedded_in_a_program_leaves_the_collector_as_it_is() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    gc.unfreeze()
    async with Server(ServerConfig(log=EmbeddedLogConfig(path=None), listen=Address("127.0.0.1", 0))) as server:
        await server.registry.get(NAMESPACE).ready()
        assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == (*before, 0)


def test_the_collector_is_off_while_a_server_process_starts_and_tuned_while_it_runs() -> None:
    service, seen = Server(ServerConfig(log=EmbeddedLogConfig(path=None), listen=Address("127.0.0.1", 0))), []

    def started(_: Server) -> None:
        assert gc.isenabled() and gc.get_freeze_count() > 0
        seen.append(gc.get_threshold())
        os.kill(os.getpid(), signal.SIGTERM)

    def make() -> Server:
        assert not gc.isenabled()
        return service

    run(make, started)
    assert seen == [(YOUNGEST, MIDDLE, OLDEST)]
