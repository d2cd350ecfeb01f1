"""A real server in a thread of its own, so that commands can block, optionally behind a proxy that breaks calls on request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.faults import Proxy
from topicpolicies_server.config import (
    Address,
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    HistoryConfig,
    Limits,
    LogConfig,
    ServerConfig,
    TlsConfig,
    parse_address,
)
from topicpolicies_server.rpc.server import Server

NO_AUTHENTICATION = AuthenticationConfig()
LIMITS = Limits()


@contextmanager
def running(
    directory: Path | None,
    *,
    history: bool = True,
    show_secrets: bool = False,
    proxy: Proxy | None = None,
    authentication: AuthenticationConfig = NO_AUTHENTICATION,
    tls: TlsConfig | None = None,
    log: LogConfig | None = None,
    authorization: AuthorizationConfig | None = None,
    metrics_listen: Address | None = None,
    limits: Limits = LIMITS,
) -> Iterator[str]:
    """Runs a server; yields its address, or that of the proxy.

    Args:
        directory: the directory of its files; None: its log is in memory, and it has no history.
        history: whether it keeps a history, if there is a directory.
        show_secrets: whether its responses show secrets.
        proxy: the proxy in front of it; None: there is none.
        authentication: how callers authenticate.
        tls: its TLS; None: without TLS.
        log: its change log; None: the embedded one.
        authorization: what callers may do; None: everything.
        metrics_listen: the address of its metrics; None: it has none.
        limits: its limits.
    """
    config = ServerConfig(
        log=log or EmbeddedLogConfig(path=directory / "policies.db" if directory is not None else None),
        listen=parse_address("127.0.0.1:0"),
        tls=tls,
        history=HistoryConfig(path=directory / "history.db") if history and directory is not None else None,
        show_secrets=show_secrets,
        authentication=authentication,
        authorization=authorization or AuthorizationConfig(allow_authenticated=authentication.enabled),
        metrics_listen=metrics_listen,
        limits=limits,
    )
    ready, address = threading.Event(), [""]
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with Server(config) as server:
            if proxy is None:
                await until_stopped(server.address)
            else:
                async with proxy.serving(server.address) as before:
                    await until_stopped(before)

    async def until_stopped(at: str) -> None:
        address[0] = at
        ready.set()
        await stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        assert not thread.is_alive()
