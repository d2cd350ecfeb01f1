"""The top command: which namespaces and topics change most, live."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

import typer
from rich.live import Live
from rich.text import Text

from topicpolicies import WATCH_MODE_EVERY, PermissionDenied, Watch, WatchEvent
from topicpolicies.names import namespace_of

from ..exits import reporting
from ..interrupts import interruptible
from ..settings import ScopeNames, Settings, settings
from ..showing import json_forms
from ..showing.busiest import Busiest
from ..showing.rendering import console
from .targets import sort_targets, sort_tenants
from .tenants import namespaces_of

_JOIN_SECONDS = 5.0
_LOOK_SECONDS = 0.05


def top(  # noqa: PLR0913 - options
    context: typer.Context,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET...",
            help="Topics; namespaces, as tenant/namespace; with --admin-url also tenants: all of them if none is named.",
        ),
    ] = None,
    scope: Annotated[ScopeNames, typer.Option("--scope", help="Which documents.")] = ScopeNames.BOTH,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", min=0.1, max=86_400, metavar="SECONDS", help="The time between two displays; with --once, how long to count."
        ),
    ] = 2.0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="The most namespaces, and topics, to show.")] = 20,
    once: Annotated[bool, typer.Option("--once", help="Count for --seconds, show the result once, and end.")] = False,
    *,
    admin_url: Annotated[
        str, typer.Option("--admin-url", metavar="URL", help="The brokers' admin API, which lists a tenant's namespaces.")
    ] = "",
    token_file: Annotated[Path | None, typer.Option("--pulsar-token-file", metavar="FILE", help="The token for the admin API.")] = None,
    trust_certs: Annotated[
        Path | None, typer.Option("--pulsar-tls-trust-certs", metavar="FILE", help="The authorities of its certificate.")
    ] = None,
) -> None:
    """Show which namespaces and topics change most.

    It counts every change. For each namespace and topic it shows the rate (the last half minute counts most) and the last change: when,
    by whom, why. On a terminal the display is updated until Ctrl-C; elsewhere it is printed again and again. With --output json each line
    is one JSON document.

    With --admin-url it follows the namespaces that the tenants have when the command begins; the server loads each of them.

    \b
    Examples:
      topicpolicies top public/default public/payments
      topicpolicies top persistent://public/default/orders --seconds 0.5
      topicpolicies top public/default --once --seconds 60 --output json
      topicpolicies top acme --admin-url http://broker:8080
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    tenants, others = sort_tenants(targets or ())
    if not admin_url and (tenants or not others):
        said = f'"{tenants[0]}" is a tenant, and the server does not list the namespaces of tenants' if tenants else "No target is named"
        raise typer.BadParameter(
            f"{said}: name topics, or namespaces as tenant/namespace (pulsar-admin namespaces list TENANT), or say --admin-url URL.",
            param_hint="TARGET",
        )
    topics, namespaces = sort_targets(others)
    with reporting(chosen.output, chosen.server), chosen.client() as client:
        if tenants or not others:
            namespaces = [*dict.fromkeys([*namespaces, *namespaces_of(tenants, admin_url, token_file, trust_certs)])]

        def opened(followed: Collection[str]) -> Watch[WatchEvent]:
            return client.watch(
                topics=[topic for topic in topics if namespace_of(topic) in followed],
                namespaces=[namespace for namespace in namespaces if namespace in followed],
                scopes=scope.scopes,
                mode=WATCH_MODE_EVERY,
                patience=chosen.timeout_seconds,
            )

        try:
            with interruptible():
                _show(_Following(opened, {*namespaces, *map(namespace_of, topics)}), chosen, seconds, limit, once=once)
        except KeyboardInterrupt:
            raise typer.Exit from None


def _show(watched: _Following, chosen: Settings, seconds: float, limit: int, *, once: bool) -> None:
    """Shows what changes most every ``seconds`` until the watch ends; ``once``: one time, after ``seconds``.

    Raises:
        TopicPoliciesError: the watch ended with this error.
    """
    with watched as following, _showing(chosen, following, limit, live=not once) as show:
        if once:
            following.wait_until_settled()
        while following.goes_on(seconds):
            show()
            if once:
                return
    if following.error is not None:
        raise following.error


class _Following:
    """Reads a watch in a thread of its own, and counts its changes. A namespace that the caller may not watch is left out."""

    def __init__(self, opened: Callable[[Collection[str]], Watch[WatchEvent]], namespaces: set[str]) -> None:
        """``opened``: opens the watch of those namespaces that it gets."""
        self._opened = opened
        self._namespaces = namespaces
        self._watch = opened(namespaces)
        self._busiest = Busiest(namespaces)
        self._lock = threading.Lock()
        self._closed = False
        self._settled = False
        self._thread = threading.Thread(target=self._read, name="top", daemon=True)
        self.error: Exception | None = None
        """The error with which the watch ended; None: it goes on, or was closed."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            self._watch.close()
        self._thread.join(_JOIN_SECONDS)

    def goes_on(self, seconds: float) -> bool:
        """Waits ``seconds``, or until the watch ends, and returns whether it goes on.

        Ctrl-C may interrupt this wait any number of times; it must not interrupt the reading of events, which is done in the thread.
        """
        self._thread.join(seconds)
        return self._thread.is_alive()

    def wait_until_settled(self) -> None:
        """Waits until each namespace is followed or can't be followed, or the watch has ended."""
        while not self._settled and self.goes_on(_LOOK_SECONDS):
            pass

    @contextmanager
    def counts(self) -> Iterator[Busiest]:
        """Yields the counts, which do not change during the body."""
        with self._lock:
            yield self._busiest

    def _read(self) -> None:
        while True:
            try:
                self._count()
            except PermissionDenied as error:
                if self._goes_on_without(error.metadata.get("namespace", ""), error.message):
                    continue
                self.error = error
            except Exception as error:  # noqa: BLE001 - the command ends with it
                self.error = error
            return

    def _count(self) -> None:
        for event in self._watch:
            with self._lock:
                self._busiest.apply(event, time.monotonic(), datetime.now(UTC))
                self._settled = self._settled or self._busiest.settled

    def _goes_on_without(self, namespace: str, why: str) -> bool:
        """Opens the watch anew without a namespace, which becomes a problem. Returns whether it did: not without the last one."""
        with self._lock:
            if namespace not in self._namespaces or len(self._namespaces) == 1 or self._closed:
                return False
            self._namespaces.discard(namespace)
            self._busiest.refused(namespace, why)
            self._watch.close()
            self._watch = self._opened(self._namespaces)
            return True


@contextmanager
def _showing(chosen: Settings, following: _Following, limit: int, *, live: bool) -> Iterator[Callable[[], None]]:
    """Yields a function that shows the present counts: as JSON, as lines, or on a terminal in place of the lines shown before."""
    shown = console()

    def document() -> None:
        with following.counts() as counts:
            found = counts.json(time.monotonic(), datetime.now(UTC), most=limit)
        json_forms.write(found)

    def lines(*, fits: bool) -> list[str]:
        with following.counts() as counts:
            width, height = (shown.width, shown.height if live else None) if fits else (None, None)
            return counts.lines(time.monotonic(), datetime.now(UTC), most=limit, width=width, height=height)

    blocks = 0

    def block() -> None:
        nonlocal blocks
        typer.echo("\n".join([*([""] if blocks else []), *lines(fits=shown.is_terminal)]))
        blocks += 1

    if chosen.json:
        yield document
    elif not (live and shown.is_terminal):
        yield block
    else:
        with Live(console=shown, auto_refresh=False, vertical_overflow="crop") as screen:

            def place() -> None:
                screen.update(Text("\n".join(lines(fits=True)), no_wrap=True), refresh=True)

            place()
            yield place
