"""An answer of the admin API is unpacked within bounds, however much it would become."""

from __future__ import annotations

import gzip
import tracemalloc

import httpx
import pytest

from topicpolicies_server.logs.pulsar.admin.answer import MOST_BYTES, Answer, TooLargeError, fetch

BODY = b'["one"]'


async def answer(body: bytes, encoding: str) -> Answer:
    """What is made of an answer."""

    def respond(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "gzip"
        headers = {"content-encoding": encoding} if encoding else {}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(body))

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as http:
        return await fetch(http, "http://broker/", {})


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (BODY, ""),
        (BODY, "identity"),
        (gzip.compress(BODY, mtime=0), "gzip"),
        (gzip.compress(BODY, mtime=0), " GZIP "),
        (b"", "gzip"),
        (b"", ""),
    ],
)
async def test_an_answer_is_read_whether_it_is_compressed_or_not(body: bytes, encoding: str) -> None:
    assert (await answer(body, encoding)).body == (BODY if body else b"")


async def test_an_answer_that_becomes_too_large_is_not_unpacked() -> None:
    whole = b" " * MOST_BYTES
    assert len((await answer(gzip.compress(whole, mtime=0), "gzip")).body) == MOST_BYTES
    packed = gzip.compress(whole * 8, mtime=0)
    del whole
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            await answer(packed, "gzip")
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (gzip.compress(gzip.compress(BODY, mtime=0), mtime=0), "gzip, gzip"),
        (BODY, "br"),
        (BODY, "gzip"),
        (gzip.compress(BODY, mtime=0)[:-9], "gzip"),
    ],
)
async def test_an_answer_that_can_not_be_unpacked_is_none(body: bytes, encoding: str) -> None:
    with pytest.raises(httpx.DecodingError):
        await answer(body, encoding)
