"""The admin client: which requests it repeats, which fail at once, and where it sends its token."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.eventually import eventually
from tests.ports import free_port
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import TlsOptions, token_from_file
from topicpolicies_server.logs.pulsar import admin as admin_module
from topicpolicies_server.logs.pulsar.admin import Admin


class Answer(NamedTuple):
    status: int
    body: str = ""
    location: str = ""


class Asked(NamedTuple):
    path: str
    authorization: str
    method: str = "GET"
    body: str = ""


class Server:
    """Sends fixed answers, and records the requests."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.url = ""
        self._answers = answers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while line := await reader.readline():
                headers = {}
                while (header := (await reader.readline()).decode().strip()) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                method, path, _ = line.decode().split()
                sent = await reader.readexactly(int(headers.get("content-length", 0)))
                self.asked.append(Asked(path, headers.get("authorization", ""), method, sent.decode()))
                status, body, location = self._answers[min(len(self.asked), len(self._answers)) - 1]
                redirect = f"Location: {location}\r\n" if location else ""
                writer.write(f"HTTP/1.1 {status} Said\r\n{redirect}Content-Length: {len(body.encode())}\r\n\r\n{body}".encode())
                await writer.drain()
        finally:
            self.connections -= 1
            writer.close()


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[Server]:
    """Runs a server that sends these answers, then repeats the last one."""
    server = Server(answers)
    async with listening(server.serve) as server.url:
        yield server


@asynccontextmanager
async def admin_of(url: str, token: Callable[[], str] | None = None) -> AsyncIterator[Admin]:
    admin = Admin(url, token=token)
    try:
        yield admin
    finally:
        await admin.close()


NOT_FOUND = Answer(404, '{"reason": "Topic not found"}')


async def test_an_answer_is_returned_as_json_or_text_or_empty_or_not_found() -> None:
    answers = [Answer(200, '{"a": [1]}'), Answer(200, "4.2.4"), Answer(204), NOT_FOUND]
    async with serving(*answers) as server, admin_of(server.url) as admin:
        got = [await admin.get("a", "b") for _ in answers]
    assert got == [{"a": [1]}, "4.2.4", {}, None]
    assert server.asked[0].path == "/admin/v2/a/b"


@pytest.mark.parametrize("path", ["tenants ..", "tenants .", "namespaces acme .. permissions", "persistent a b .. x"])
async def test_a_name_with_dot_segments_is_not_found_and_nothing_is_requested(path: str) -> None:
    async with serving(Answer(200, "{}")) as server, admin_of(server.url) as admin:
        assert await admin.get(*path.split(" ")) is None
        assert await admin.headers(*path.split(" ")) is None
    assert server.asked == [], "acme/.. would name another resource, requested with this server's token"


@pytest.mark.parametrize(
    "body", ["", "404 page not found", "<html>nothing here</html>", "{}", '["reason"]', '{"reason": 404}', "[" * 5_000]
)
async def test_that_something_does_not_exist_is_believed_of_brokers_only(body: str) -> None:
    async with serving(Answer(404, body)) as server, admin_of(server.url) as admin:
        with pytest.raises(LogError, match="404, but not from a broker") as failed:
            await admin.get("namespaces", "acme", "orders", seconds=0.0)
        assert failed.value.state == LogState.ADMIN_UNREACHABLE
        with pytest.raises(LogError, match="404"):
            await admin.reached(3.0)
    async with serving(Answer(404, body), NOT_FOUND) as server, admin_of(server.url) as admin:
        assert await admin.get("namespaces", "acme", "orders") is None


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_request_that_fails_temporarily_is_repeated(status: int) -> None:
    async with serving(Answer(status), Answer(status), Answer(200, "{}")) as server, admin_of(server.url) as admin:
        assert await admin.get("x") == {}
    assert len(server.asked) == 3


async def test_repeating_a_failing_request_ends_in_time() -> None:
    async with serving(Answer(503, '{"reason": "not now"}')) as server, admin_of(server.url) as admin:
        with pytest.raises(LogError, match="not now"):
            await admin.get("x", seconds=0.0)
        assert len(server.asked) == 1
        with pytest.raises(LogError, match="not now") as failed:
            await admin.get("x", seconds=1.0)
    assert failed.value.state == LogState.ADMIN_UNREACHABLE
    assert len(server.asked) > 2


async def test_a_change_is_sent_until_it_has_an_answer_and_where_it_is_redirected() -> None:
    moved = Answer(307, "", "/admin/v2/a/b?authoritative=true")
    async with serving(Answer(503), moved, Answer(204)) as server, admin_of(server.url) as admin:
        await admin.change("POST", "a", "b", query={"isGlobal": "true"}, body={"c": None})
    sent = Asked("/admin/v2/a/b?isGlobal=true", "", "POST", '{"c": null}')
    assert server.asked == [sent, sent, sent._replace(path="/admin/v2/a/b?authoritative=true")]


@pytest.mark.parametrize(("status", "kind"), [(404, Kind.NOT_FOUND), (409, Kind.FAILED_PRECONDITION), (412, Kind.FAILED_PRECONDITION)])
async def test_a_change_that_brokers_refuse_is_not_repeated(status: int, kind: Kind) -> None:
    async with serving(Answer(status, '{"reason": "Topic not found"}')) as server, admin_of(server.url) as admin:
        with pytest.raises(PolicyError) as refused:
            await admin.change("DELETE", "x")
    assert (refused.value.kind, isinstance(refused.value, LogError)) == (kind, False)
    assert server.asked == [Asked("/admin/v2/x", "", "DELETE")]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_request_that_is_unauthorized_or_forbidden_is_not_repeated(status: int) -> None:
    async with serving(Answer(status, '{"reason": "who are you?"}')) as server, admin_of(server.url) as admin:
        with pytest.raises(LogError, match="who are you") as failed:
            await admin.get("x")
    assert failed.value.state == LogState.ADMIN_REFUSED
    assert len(server.asked) == 1


async def test_the_next_host_is_used_if_one_is_unreachable() -> None:
    async with serving(Answer(200, '"here"')) as server:
        dead = f"127.0.0.1:{free_port()}"
        async with admin_of(f"http://{dead},{server.url.removeprefix('http://')}") as admin:
            assert await admin.get("x") == "here"
            assert await admin.get("y") == "here"
    assert len(server.asked) == 2


async def test_a_host_that_hangs_keeps_no_request_from_the_other_hosts() -> None:
    async with (
        listening(silence) as silent,
        serving(Answer(200, '"here"')) as good,
        admin_of(f"{silent},{good.url.removeprefix('http://')}") as admin,
    ):
        assert await asyncio.gather(*(admin.get("x", str(number), seconds=5.0) for number in range(40))) == ["here"] * 40


@pytest.mark.parametrize("status", [401, 403])
async def test_reached_fails_at_once_if_a_host_refuses_the_credentials(status: int) -> None:
    async with serving(Answer(status)) as bad, serving(Answer(200, "4.2.4")) as good:
        admin = Admin(f"{bad.url},{good.url.removeprefix('http://')}")
        with pytest.raises(LogError) as failed:
            await admin.reached(3.0)
        await admin.close()
    assert failed.value.state == LogState.ADMIN_REFUSED


async def test_a_redirect_is_followed_with_a_token_that_is_read_for_each_request() -> None:
    tokens = iter(["first", "second", "third"])
    async with serving(Answer(200, '"owner"')) as owner:
        location = Answer(307, "", f"{owner.url}/admin/v2/x?authoritative=true")
        async with serving(location) as server, admin_of(server.url, token=lambda: next(tokens)) as admin:
            assert await admin.get("x") == "owner"
    assert server.asked == [Asked("/admin/v2/x", "Bearer first")]
    assert owner.asked == [Asked("/admin/v2/x?authoritative=true", "Bearer second")]


async def test_a_redirect_away_from_tls_is_refused() -> None:
    async with admin_of("https://127.0.0.1:1") as admin:
        await admin._authenticate(httpx.Request("GET", "https://a:2/x"))
        with pytest.raises(LogError, match="TLS") as refused:
            await admin._authenticate(httpx.Request("GET", "http://a:2/x"))
    assert refused.value.state == LogState.ADMIN_REFUSED


async def test_an_unreadable_token_is_waited_for_and_the_token_never_appears_in_errors_or_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    async with serving(Answer(401, '{"reason": "no"}')) as server, admin_of(server.url, token=token_from_file(file)) as admin:
        with pytest.raises(LogError, match="token") as failed:
            await admin.get("x", seconds=0.3)
        assert failed.value.state == LogState.ADMIN_UNREACHABLE
        assert server.asked == []
        file.write_text("  very-secret\n")
        with pytest.raises(LogError) as refused:
            await admin.get("x")
    assert server.asked[0].authorization == "Bearer very-secret"
    assert "very-secret" not in str(refused.value) + caplog.text


def test_an_unusable_trust_file_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        TlsOptions(trust_certs=tmp_path / "missing.pem").context()
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(OSError):  # noqa: PT011 (OpenSSL's own message)
        TlsOptions(trust_certs=tmp_path / "empty.pem").context()
    with pytest.raises(LogError, match="A TLS file for Pulsar can't be used") as refused:
        Admin("https://localhost:1", tls=TlsOptions(trust_certs=tmp_path / "missing.pem"))
    assert refused.value.kind is Kind.FAILED_PRECONDITION


async def test_closing_the_client_ends_its_requests_and_leaves_no_connection_open() -> None:
    cut = 0
    async with serving(Answer(200, "{}")) as server:
        for turns in range(60):  # turns of the event loop between the requests and the closing
            admin = Admin(server.url)
            questions = [asyncio.create_task(admin.get("x")) for _ in range(3)]
            for _ in range(turns):
                await asyncio.sleep(0)
            await admin.close()
            answers = await asyncio.gather(*questions, return_exceptions=True)
            failures = [answer for answer in answers if isinstance(answer, BaseException)]
            assert {type(failure) for failure in failures} <= {LogError}
            cut += len(failures)
        assert cut > 20
        await eventually(lambda: server.connections == 0)


@asynccontextmanager
async def listening(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """Runs a server; returns its URL."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serves a connection, and never answers."""
    with contextlib.closing(writer), contextlib.suppress(OSError):
        await reader.read()


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serves a connection with an answer of which a byte comes each 50 ms, without an end."""
    with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 Said\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)


async def test_an_answer_that_arrives_one_byte_at_a_time_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "_ATTEMPT_SECONDS", 0.3)
    async with listening(trickle) as url, admin_of(url) as admin:
        with pytest.raises(LogError, match="no complete answer") as failed:
            await asyncio.wait_for(admin.get("x", seconds=0.2), 20)
    assert failed.value.state == LogState.ADMIN_UNREACHABLE


@pytest.mark.parametrize(
    "location",
    [
        "ftp://127.0.0.1/x",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http://[::1",
        "http://127.0.0.1:port/x",
        "http://127.0.0.1:99999/x",
        "http://" + "a" * 70 + ".example/x",
        "http://xn--\u00e9/x",
        "//",
    ],
)
async def test_a_redirect_to_an_invalid_location_is_reported_as_a_log_error(location: str) -> None:
    async with serving(Answer(307, "", location)) as server, admin_of(server.url) as admin:
        with pytest.raises(LogError) as failed:
            await admin.get("x", seconds=0.1)
    assert failed.value.state == LogState.ADMIN_UNREACHABLE


def everything_revealed(error: BaseException | None) -> str:
    """Returns everything that an error and its causes could reveal."""
    if error is None:
        return ""
    revealed = f"{error} {error!r} {error.args} " + "".join(traceback.format_exception(error))
    return revealed + everything_revealed(error.__cause__ or error.__context__)


@pytest.mark.parametrize(
    "content", [b"geheim\xff\xfe", b"geheim geheim", "geheim\u00e9".encode(), b"geheim\x00", b"geheim\nmore", b"", b"geheim" * 20_000]
)
async def test_a_file_without_a_valid_token_is_reported_without_revealing_its_content(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(OSError, match="token") as unusable:
        token_from_file(file)()
    async with serving(Answer(200, "{}")) as server, admin_of(server.url, token=token_from_file(file)) as admin:
        with pytest.raises(LogError, match="token") as failed:
            await admin.get("x", seconds=0.1)
    assert "geheim" not in everything_revealed(failed.value) + everything_revealed(unusable.value) + caplog.text


@pytest.mark.parametrize("status", [400, 401, 503])
async def test_a_token_in_a_brokers_answer_is_removed_from_the_error(status: int) -> None:
    answer = Answer(status, '{"reason": "Invalid token geheim-token"}')
    async with serving(answer) as server, admin_of(server.url, token=lambda: "geheim-token") as admin:
        with pytest.raises(LogError, match="Invalid token") as failed:
            await admin.get("x", seconds=0.1)
    assert "geheim" not in everything_revealed(failed.value)
