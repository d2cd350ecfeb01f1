"""The connection of a client: TLS, channel options, and the metadata that is sent with each call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from .addresses import is_local
from .errors import Unavailable, Violation, invalid

try:
    from opentelemetry.propagate import inject
except ImportError:

    def inject(carrier: dict[str, str]) -> None:  # type: ignore[misc]
        """Adds the program's trace context to the metadata of a call, if OpenTelemetry's API is installed."""


StrPath: TypeAlias = str | os.PathLike[str]
Token: TypeAlias = str | Callable[[], str]
"""A bearer token, or a function that returns the current one; it is called for each call, and must not block."""
Options: TypeAlias = Iterable[tuple[str, int | str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS configuration of a client. All files are PEM, and are read once, when the client is made."""

    ca_file: StrPath | None = None
    """The certificate authorities that may have signed the server's certificate; None: gRPC's default."""
    certificate_file: StrPath | None = None
    """The client's own certificate, if the server requires one (mutual TLS)."""
    key_file: StrPath | None = None
    """The private key of the client's certificate."""
    server_name: str | None = None
    """The host name in the server's certificate, if it differs from the address."""

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns gRPC's credentials for this configuration.

        Raises:
            OSError: a file can't be read.
        """
        files = (self.ca_file, self.key_file, self.certificate_file)
        return grpc.ssl_channel_credentials(*(Path(file).read_bytes() if file else None for file in files))


class TokenFile:
    """A bearer token in a file, for a client's ``token``. It is read for each call; while it can't be, the last token is used.

    ``Client("policies.example:6680", token=TokenFile("/run/secrets/token"))``. Several clients and threads can share one.
    """

    def __init__(self, path: StrPath) -> None:
        """Reads the file.

        Raises:
            OSError: the file can't be read.
            InvalidArgument: there is no token in the file.
        """
        self._path = Path(path)
        self._token = self._read()

    def __call__(self) -> str:
        """Returns the current token."""
        with suppress(OSError, ValueError):  # it may be half written
            self._token = self._read()
        return self._token

    def _read(self) -> str:
        token = self._path.read_text("ascii", errors="replace").strip()
        return checked_token(token, f'The file "{self._path}" has no bearer token in it.')


def checked_token(token: Any, problem: str = "The token can't be sent: it is not a text of printable ASCII without blanks.") -> str:
    """Returns a token that can be sent as metadata.

    Raises:
        InvalidArgument: it can't; the error does not show it.
    """
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise invalid(Violation("token", "MALFORMED_TOKEN", problem))
    return token


def credentials_for(target: str, tls: bool | Tls | None) -> grpc.ChannelCredentials | None:
    """Returns the credentials for a target; None: without TLS. ``tls``: None means TLS, unless the target is on this machine.

    Raises:
        OSError: a file of ``tls`` can't be read.
    """
    if tls is False or (tls is None and is_local(target)):
        return None
    return (tls if isinstance(tls, Tls) else Tls()).credentials()


def options_for(target: str, tls: bool | Tls | None, options: Options = ()) -> list[tuple[str, int | str]]:
    """Returns the options of the channel to a target: the defaults, the server's name of ``tls``, then ``options``, which override them."""
    chosen: dict[str, int | str] = {
        "grpc.service_config": resources.files(__package__).joinpath("service_config.json").read_text(),
        "grpc.per_rpc_retry_buffer_size": 8 << 20,  # larger requests would not be repeated
        "grpc.keepalive_time_ms": 30_000,  # detects a connection that broke silently
        "grpc.keepalive_timeout_ms": 10_000,
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.max_reconnect_backoff_ms": 5_000,
        "grpc.max_receive_message_length": 64 << 20,
    }
    if isinstance(tls, Tls) and tls.server_name:
        chosen["grpc.ssl_target_name_override"] = tls.server_name
    if is_local(target):  # gRPC would send what is meant for this machine, a token too, to the ``http_proxy`` of the environment
        chosen["grpc.enable_http_proxy"] = 0
    return [*(chosen | dict(options)).items()]


def open_channel(api: Any, target: str, token: Token | None, tls: bool | Tls | None, options: Options) -> Any:
    """Returns a channel, for stubs, whose calls carry the token. ``api``: ``grpc`` or ``grpc.aio``.

    Raises:
        InvalidArgument: the token can't be sent, or would go to another machine without TLS, or the target is a URL.
        OSError: a file of ``tls`` can't be read.
        RuntimeError: a channel of asyncio is opened where no event loop is running.
    """
    if target.startswith(("http://", "https://")):
        raise invalid(Violation("target", "MALFORMED_TARGET", f'The target must be an address, host:port, not a URL: "{target}".'))
    credentials, chosen = credentials_for(target, tls), options_for(target, tls, options)
    if token is not None and credentials is None and not is_local(target):
        raise invalid(Violation("token", "TOKEN_IN_THE_CLEAR", f"A token is not sent to another machine ({target}) without TLS."))
    if token is not None and not callable(token):
        checked_token(token)
    if api is grpc.aio:
        asyncio.get_running_loop()  # to which the channel belongs
    channel = api.secure_channel(target, credentials, chosen) if credentials else api.insecure_channel(target, chosen)
    return Channel(channel, token)


class Channel:
    """The part of a channel, of either gRPC API, that a stub needs. Each call gets the current token and trace context."""

    def __init__(self, channel: Any, token: Token | None) -> None:
        self._channel = channel
        self._token = token

    def close(self) -> Any:
        """Closes the channel; asyncio's has to be awaited."""
        return self._channel.close()

    def unary_unary(self, *arguments: Any, **options: Any) -> Method:
        """See ``grpc.Channel``."""
        return Method(self._channel.unary_unary(*arguments, **options), self._metadata)

    def unary_stream(self, *arguments: Any, **options: Any) -> Method:
        """See ``grpc.Channel``."""
        return Method(self._channel.unary_stream(*arguments, **options), self._metadata)

    def _metadata(self) -> list[tuple[str, str]]:
        carrier: dict[str, str] = {}
        inject(carrier)
        if self._token is not None:
            try:
                token = self._token() if callable(self._token) else self._token
            except Exception as error:
                raise Unavailable(f"The token function failed: {error!r}", code=grpc.StatusCode.UNAVAILABLE) from error
            carrier["authorization"] = f"Bearer {checked_token(token)}"
        return list(carrier.items())


class Method:
    """A method of a stub, of either gRPC API."""

    def __init__(self, method: Any, metadata: Callable[[], list[tuple[str, str]]]) -> None:
        self._method = method
        self._metadata = metadata

    def __call__(self, request: Any, *, metadata: Iterable[Any] | None = None, **options: Any) -> Any:
        """Makes the call; ``metadata`` is sent after the client's own."""
        return self._method(request, metadata=(*self._metadata(), *(metadata or ())), **options)

    def with_call(self, request: Any, *, metadata: Iterable[Any] | None = None, **options: Any) -> Any:
        """See ``grpc.UnaryUnaryMultiCallable``."""
        return self._method.with_call(request, metadata=(*self._metadata(), *(metadata or ())), **options)
