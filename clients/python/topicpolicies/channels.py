"""How a client reaches the service: TLS, the options of the connection, and what is sent with each call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import grpc

from . import traces
from .addresses import addresses_of, is_local
from .errors import Violation, invalid
from .stubs import Metadata

ACTOR_KEY = "topicpolicies-actor"
"""The metadata that says who asks for a change."""
StrPath: TypeAlias = str | os.PathLike[str]
Token: TypeAlias = str | Callable[[], str]
"""A bearer token, or what gives the present one; it is asked for each call, and must not wait for long."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 30_000),  # a connection that died without a word is noticed
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.max_receive_message_length", 64 << 20),
)
"""The channel options that clients begin with; those that are handed in come after and win."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS of a connection. All files are PEM."""

    ca_file: StrPath | None = None
    """The authorities that the server's certificate is checked against; None: gRPC's own."""
    certificate_file: StrPath | None = None
    """The client's own certificate, if the server asks for one (mutual TLS)."""
    key_file: StrPath | None = None
    """Its private key."""
    server_name: str | None = None
    """The name that the server's certificate carries, where it differs from the address."""

    def credentials(self) -> grpc.ChannelCredentials:
        """As gRPC takes it.

        Raises:
            OSError: a file can't be read.
        """
        return grpc.ssl_channel_credentials(
            Path(self.ca_file).read_bytes() if self.ca_file else None,
            Path(self.key_file).read_bytes() if self.key_file else None,
            Path(self.certificate_file).read_bytes() if self.certificate_file else None,
        )


def credentials_for(target: str, tls: bool | Tls | None) -> grpc.ChannelCredentials | None:
    """The credentials for a target, and for wherever it sends the client; None: without TLS.

    Args:
        target: the address, or several.
        tls: whether and how; None: with TLS, unless all of the target is on this machine.
    """
    if tls is False or (tls is None and all(map(is_local, addresses_of(target)))):
        return None
    return (tls if isinstance(tls, Tls) else Tls()).credentials()


def options_for(tls: bool | Tls | None, options: Iterable[tuple[str, int | str]]) -> tuple[tuple[str, int | str], ...]:
    """The options of a channel."""
    name = tls.server_name if isinstance(tls, Tls) else None
    return (*OPTIONS, *((("grpc.ssl_target_name_override", name),) if name else ()), *options)


def metadata_for(actor: str, token: Token | None, metadata: Iterable[tuple[str, str]]) -> Callable[[], Metadata]:
    """What gives the metadata of a call.

    Raises:
        InvalidArgument: the actor can't be sent.
    """
    if actor and not (actor.isascii() and actor.isprintable() and actor == actor.strip()):
        problem = "The actor is sent as metadata: printable ASCII, without blanks around it. A change's own actor may be any text."
        raise invalid("MALFORMED_ACTOR", Violation("actor", "MALFORMED_ACTOR", problem))
    fixed = (*(((ACTOR_KEY, actor),) if actor else ()), *metadata)

    def current() -> Metadata:
        given = fixed if any(key == traces.PARENT_KEY for key, _ in fixed) else (*fixed, *traces.current())
        if token is None:
            return given
        return (*given, ("authorization", f"Bearer {token if isinstance(token, str) else token()}"))

    return current


def check_token(address: str, credentials: grpc.ChannelCredentials | None, token: Token | None) -> None:
    """Refuses to send a token where others can read it.

    Raises:
        InvalidArgument: the connection goes to another machine without TLS.
    """
    if token is not None and credentials is None and not all(map(is_local, addresses_of(address))):
        problem = f"A token is not sent to another machine ({address}) without TLS."
        raise invalid("TOKEN_IN_THE_CLEAR", Violation("token", "TOKEN_IN_THE_CLEAR", problem))
