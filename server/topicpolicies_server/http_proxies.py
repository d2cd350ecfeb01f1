"""Reports proxies that the environment names for requests over HTTP, and that can't be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx


@contextmanager
def reporting_proxies() -> Iterator[None]:
    """Surrounds the making of an HTTP client, which reads the proxies.

    Raises:
        RuntimeError: a proxy can't be used. The text names none, because its URL may have a password.
    """
    try:
        yield
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise RuntimeError(
            "a proxy in the environment can't be used (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY): write http://host:port, for SOCKS"
            " proxies are not supported"
        ) from error
