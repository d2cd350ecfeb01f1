"""Sends requests to a collector. Each ends in bounded time and memory, whatever the collector answers.

The HTTP library bounds only each read, so a collector that sends a byte now and then would hold a request forever. Requests are therefore
made on an event loop of their own, where each of them has a deadline as a whole. The body of an answer says nothing that is needed, and is
read only so that the connection can be used again.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import httpx

from ..config import Address
from ..http_proxies import reporting_proxies

_LOG = logging.getLogger(__name__)
SECONDS = 10.0
"""How long a request may take, until its answer is complete."""
HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
"""The environment variable with headers for the collector, as in OpenTelemetry: ``name=value,...``, values encoded as in URLs."""
_MOST_READ = 65_536
"""How many bytes of an answer are read; beyond them the connection is closed."""
_OWN_HEADERS = {"content-type": "application/x-protobuf", "accept-encoding": "identity"}
_NAME, _VALUE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), re.compile(r"([!-~]([\t -~]*[!-~])?)?")
"""What a header can have (RFC 9110), of which values are ASCII here."""


class CollectorError(Exception):
    """A request did not succeed. The text is a clause that says why, and contains nothing of the request."""

    def __init__(self, why: str, status: int = 0) -> None:
        """``status``: the HTTP status of the answer; 0: there was none."""
        super().__init__(why)
        self.status = status


class Collector:
    """A client of one collector. One thread at a time may use it."""

    def __init__(self, endpoint: str, headers: Mapping[str, str]) -> None:
        """Connects on first use.

        Args:
            endpoint: where the collector takes OTLP over HTTP. It is reached without the environment's proxies if it is on this machine.
            headers: what each request has besides the headers of OTLP.

        Raises:
            RuntimeError: the environment names a proxy that can't be used.
        """
        self._runner = asyncio.Runner()
        trusted = ssl.create_default_context()  # without this, the authorities would be those of a Python package
        elsewhere = not Address(urlsplit(endpoint).hostname or "", 0).loopback
        with reporting_proxies():
            self._http = httpx.AsyncClient(verify=trusted, timeout=SECONDS, headers={**headers, **_OWN_HEADERS}, trust_env=elsewhere)

    def post(self, url: str, body: bytes) -> None:
        """Sends a request, and blocks until it is answered.

        Raises:
            CollectorError: the answer is not one of success, or is not there after ``SECONDS``.
        """
        self._runner.run(self._post(url, body))

    def close(self) -> None:
        """Closes the connections."""
        with self._runner as runner:
            runner.run(self._http.aclose())

    async def _post(self, url: str, body: bytes) -> None:
        try:
            async with asyncio.timeout(SECONDS), self._http.stream("POST", url, content=body) as response:
                status, size = response.status_code, 0
                async for piece in response.aiter_raw():
                    size += len(piece)
                    if size > _MOST_READ:
                        break
        except TimeoutError as error:
            raise CollectorError(f"no answer in {SECONDS:g} s") from error
        except httpx.LocalProtocolError as error:  # its text may quote a header
            raise CollectorError("the request can't be sent over HTTP") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise CollectorError(str(error) or type(error).__name__) from error
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise CollectorError(f"it answers {status}", status)


def headers_of(text: str) -> dict[str, str]:
    """Parses headers in the form of OpenTelemetry's variable.

    Parts that are no header are left out. For a value that no header can have, a line in the log names the header.
    """
    found = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not _NAME.fullmatch(name):
            continue
        if _VALUE.fullmatch(value := unquote(value).strip(" \t")):
            found[name] = value
        else:
            _LOG.warning("%s: the header %s is left out, because its value has characters that no header can have", HEADERS_VARIABLE, name)
    return found
