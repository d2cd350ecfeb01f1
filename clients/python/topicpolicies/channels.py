"""The connection of a client: TLS, channel options, and the metadata that is sent with each call."""

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
"""The key of the metadata that names the actor: who makes a change."""
StrPath: TypeAlias = str | os.PathLike[str]
Token: TypeAlias = str | Callable[[], str]
"""A bearer token, or a function that returns the current one; it is called for each call, and must not block."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 30_000),  # detects a connection that broke silently
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.max_receive_message_length", 64 << 20),
)
"""The default channel options; options of the caller come after them and override them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS configuration of a client. All files are PEM."""

    ca_file: StrPath | None = None
    """The certificate authorities that may have signed the server's certificate; None: gRPC's default."""
    certificate_file: StrPath | None = None
    """The client's own certificate, if the server requires one (mutual TLS)."""
    key_file: StrPath | None = None
    """The private key of the client's certificate."""
    server_name: str | None = None
    """The host name in the server's certificate, if it differs from the address."""

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns gRPC's credentials for this configuration; reads the files.

        Raises:
            OSError: a file can't be read.
        """
        return grpc.ssl_channel_credentials(
            Path(self.ca_file).read_bytes() if self.ca_file else None,
            Path(self.key_file).read_bytes() if self.key_file else None,
            Path(self.certificate_file).read_bytes() if self.certificate_file else None,
        )


def credentials_for(target: str, tls: bool | Tls | None) -> grpc.ChannelCredentials | None:
    """Returns the credentials for a target, and for the leaders that its servers name; None: without TLS.

    Args:
        target: one address or several.
        tls: whether to use TLS, and how; None: TLS, unless all addresses are on this machine.

    Raises:
        OSError: a file of ``tls`` can't be read.
    """
    if tls is False or (tls is None and all(map(is_local, addresses_of(target)))):
        return None
    return (tls if isinstance(tls, Tls) else Tls()).credentials()


def options_for(target: str, tls: bool | Tls | None, options: Iterable[tuple[str, int | str]]) -> tuple[tuple[str, int | str], ...]:
    """Returns the options of a channel: the defaults, the server's name of ``tls``, then ``options``."""
    name = tls.server_name if isinstance(tls, Tls) else None
    named = (("grpc.ssl_target_name_override", name),) if name else ()
    # gRPC would send what is meant for this machine, a token too, to the ``http_proxy`` of the environment, without TLS.
    direct = (("grpc.enable_http_proxy", 0),) if all(map(is_local, addresses_of(target))) else ()
    return (*OPTIONS, *named, *direct, *options)


def metadata_for(actor: str, token: Token | None, metadata: Iterable[tuple[str, str]]) -> Callable[[], Metadata]:
    """Returns a function that returns the metadata of a call: the actor, ``metadata``, the trace context and the token.

    Raises:
        InvalidArgument: the actor can't be sent as metadata.
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
    """Checks that a token is not sent in plaintext to another machine.

    Raises:
        InvalidArgument: there is a token, and the connection goes to another machine without TLS.
    """
    if token is not None and credentials is None and not all(map(is_local, addresses_of(address))):
        problem = f"A token is not sent to another machine ({address}) without TLS."
        raise invalid("TOKEN_IN_THE_CLEAR", Violation("token", "TOKEN_IN_THE_CLEAR", problem))
