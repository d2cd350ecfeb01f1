"""Tokens from an issuer, client certificates that change, and how pulsar-client is configured for both."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.broker.credentials import Authority, trusting
from topicpolicies_server.config import OAuth2Config, PulsarLogConfig
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import client as client_module
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.credentials import IssuedToken, TlsOptions, tls_of, token_of

SECRET = "very-secret"


class Web:
    """An issuer, and a broker's admin API that accepts only its newest token, on one port."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.forms: list[dict[str, list[str]]] = []
        self.shown: list[str] = []
        self.certificates: list[Any] = []
        self.seconds: object = 3600
        self.token: Callable[[int], str] = lambda number: f"token-{number}"
        """Returns the token to issue, by its number."""
        self.failure: tuple[int, object] | None = None
        self.gate = threading.Event()
        self.gate.set()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/.well-known/"):
                    self.answer(200, {"token_endpoint": f"{web.url}/token"})
                    return
                web.gate.wait(20)
                web.shown.append(self.headers.get("authorization", ""))
                web.certificates.append(context and self.connection.getpeercert())
                good = not web.forms or web.shown[-1] == f"Bearer token-{len(web.forms)}"
                self.answer(200 if good else 401, ["standalone"])

            def do_POST(self) -> None:
                web.gate.wait(20)
                web.forms.append(parse_qs(self.rfile.read(int(self.headers["content-length"])).decode()))
                if web.failure is not None:
                    self.answer(*web.failure)
                    return
                self.answer(200, {"access_token": web.token(len(web.forms)), "expires_in": web.seconds})

            def answer(self, status: int, content: object) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    yield made
    made.close()


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps({"type": "client_credentials", "client_id": "sidecar", "client_secret": SECRET}))
    return path


@pytest.fixture
def oauth2(web: Web, credentials: Path) -> OAuth2Config:
    return OAuth2Config(issuer=web.url, credentials_file=credentials, audience="urn:pulsar", scope="admin")


async def test_the_admin_api_gets_a_token_that_is_requested_from_the_issuer_once(web: Web, oauth2: OAuth2Config) -> None:
    admin = Admin(web.url, token=IssuedToken(oauth2))
    assert await asyncio.gather(*(admin.get("clusters") for _ in range(5))) == [["standalone"]] * 5
    await admin.close()
    assert web.forms == [
        {
            "grant_type": ["client_credentials"],
            "client_id": ["sidecar"],
            "client_secret": [SECRET],
            "audience": ["urn:pulsar"],
            "scope": ["admin"],
        }
    ]
    assert set(web.shown) == {"Bearer token-1"}


@pytest.mark.parametrize(("seconds", "asked_again_at"), [(3600, 3540), ("100", 80), (None, 240), (-5, 240), ("never", 240)])
def test_a_token_is_requested_again_shortly_before_it_expires(
    web: Web, oauth2: OAuth2Config, seconds: object, asked_again_at: float
) -> None:
    now = 0.0
    token = IssuedToken(oauth2, lambda: now)
    web.seconds = seconds
    assert token() == "token-1"
    now = asked_again_at - 1
    assert token() == "token-1"
    now = asked_again_at
    assert token() == "token-2"


async def test_a_token_that_brokers_refuse_is_dropped_from_the_cache(web: Web, oauth2: OAuth2Config) -> None:
    admin = Admin(web.url, token=IssuedToken(oauth2))
    await admin.get("clusters")
    web.forms.append({})  # the issuer has issued another token since
    with pytest.raises(LogError) as caught:
        await admin.get("clusters")
    assert caught.value.state == LogState.ADMIN_REFUSED
    assert await admin.get("clusters") == ["standalone"]
    await admin.close()
    assert web.shown[-1] == "Bearer token-3"


def test_credentials_are_read_for_each_token(web: Web, oauth2: OAuth2Config, credentials: Path) -> None:
    token = IssuedToken(oauth2)
    token()
    credentials.write_text(json.dumps({"client_id": "sidecar", "client_secret": "another"}))
    token.refused("token-1")
    token()
    assert [form["client_secret"] for form in web.forms] == [[SECRET], ["another"]]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ((401, {"error": "invalid_client", "error_description": SECRET}), "401 (invalid_client)"),
        ((400, {"error": f"{SECRET} is wrong"}), "400 to the request"),
        ((500, SECRET), "500 to the request"),
        ((200, ["no object"]), "200 to the request"),
        ((200, {}), "is empty"),
        ((200, {"access_token": f"two {SECRET}"}), "something other than a token"),
        ((200, {"access_token": "x" * 300_000}), "something other than a token"),
    ],
)
async def test_an_issuers_error_has_no_secrets(web: Web, oauth2: OAuth2Config, failure: tuple[int, object], message: str) -> None:
    web.failure = failure
    admin = Admin(web.url, token=IssuedToken(oauth2))
    with pytest.raises(LogError) as caught:
        await admin.get("clusters", seconds=0)
    await admin.close()
    assert caught.value.state == LogState.ADMIN_UNREACHABLE
    assert message in caught.value.message and SECRET not in caught.value.message


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"client_id": "sidecar"}', "[" * 100_000])
def test_a_file_without_credentials_is_refused(oauth2: OAuth2Config, credentials: Path, content: str) -> None:
    credentials.write_text(content)
    with pytest.raises(OSError, match="is not JSON with client_id and client_secret"):
        IssuedToken(oauth2)()


async def test_a_request_fails_as_closed_if_the_admin_client_is_closed_while_the_issuer_is_asked(web: Web, oauth2: OAuth2Config) -> None:
    web.gate.clear()
    admin = Admin(web.url, token=IssuedToken(oauth2))
    asking = asyncio.ensure_future(admin.get("clusters"))
    await asyncio.sleep(0.2)
    await asyncio.wait_for(admin.close(), 20)
    with pytest.raises(LogError, match="was closed"):
        await asyncio.wait_for(asking, 20)
    web.gate.set()


class Configuration:
    """Records the calls that configure the library."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[[object], None]:
        def record(value: object) -> None:
            self.options[name] = value

        return record


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the library's authentication objects by their arguments."""
    for name in ("AuthenticationTLS", "AuthenticationToken"):

        class Asked:
            kind = name

            @classmethod
            def create(cls, *arguments: object) -> object:
                return (cls.kind, *arguments)

        monkeypatch.setattr(f"{client_module.__name__}._pulsar.{name}", Asked)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("with_token", [False, True])
def test_the_library_is_configured_with_the_certificate(with_token: bool) -> None:
    configuration = Configuration()
    tls = TlsOptions(trust_certs=Path("ca.pem"), certificate=Path("me.pem"), key=Path("me.key"), check_hostname=False)
    client_module.secure(configuration, "pulsar+ssl://broker:6651", (lambda: "token") if with_token else None, tls)
    options = configuration.options
    kind = options.pop("authentication")[0]
    assert kind == ("AuthenticationToken" if with_token else "AuthenticationTLS")
    assert options == {
        "tls_allow_insecure_connection": False,
        "tls_validate_hostname": False,
        "tls_trust_certs_file_path": "ca.pem",
        "tls_certificate_file_path": "me.pem",
        "tls_private_key_file_path": "me.key",
    }


def test_tls_options_and_the_token_are_derived_from_the_configuration(credentials: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("ca", "certificate", "key")}
    for path in files.values():
        path.write_text("")
    config = PulsarLogConfig(
        service_url="pulsar+ssl://broker:6651",
        admin_url="https://broker:8443",
        tls_trust_certs_file=files["ca"],
        tls_certificate_file=files["certificate"],
        tls_key_file=files["key"],
        tls_validate_hostname=False,
        oauth2=OAuth2Config(issuer="https://issuer", credentials_file=credentials, audience="a", scope="s"),
    )
    assert config.problems() == []
    assert tls_of(config) == TlsOptions(trust_certs=files["ca"], certificate=files["certificate"], key=files["key"], check_hostname=False)
    assert isinstance(token_of(config), IssuedToken)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def secured(authority: Authority) -> Iterator[Web]:
    """An admin API that requires client certificates."""
    server = authority.issue("broker")
    context = trusting(authority.trust, ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    made = Web(context)
    yield made
    made.close()


async def test_the_admin_client_uses_the_current_certificate_and_keeps_the_old_one_while_files_do_not_match(
    secured: Web, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "me.pem", tmp_path / "me.key"
    first, second = authority.issue("first"), authority.issue("second")
    shutil.copyfile(first.certificate, certificate)
    shutil.copyfile(first.key, key)
    admin = Admin(secured.url, tls=TlsOptions(trust_certs=authority.trust, certificate=certificate, key=key))

    async def shown() -> str:
        await admin.get("clusters")
        return str(secured.certificates[-1]["subject"][0][0][1])

    assert await shown() == "first"
    shutil.copyfile(second.certificate, certificate)
    with caplog.at_level(logging.WARNING):
        assert [await shown(), await shown()] == ["first", "first"]  # the key does not match the certificate
    assert len(caplog.records) == 1 and "stays in force" in caplog.text
    shutil.copyfile(second.key, key)
    assert await shown() == "second"
    secured.gate.clear()
    slow = asyncio.ensure_future(admin.get("clusters"))  # over a connection with the current certificate
    await asyncio.sleep(0.2)
    shutil.copyfile(first.certificate, certificate)
    shutil.copyfile(first.key, key)
    other = asyncio.ensure_future(admin.get("clusters"))
    await asyncio.sleep(0.2)
    secured.gate.set()
    assert [await slow, await other] == [["standalone"]] * 2
    assert {str(each["subject"][0][0][1]) for each in secured.certificates[-2:]} == {"first", "second"}
    await admin.close()


async def test_an_authority_that_was_removed_is_not_trusted_any_more(secured: Web, authority: Authority, tmp_path: Path) -> None:
    trust, me = tmp_path / "trust.pem", authority.issue("me")
    shutil.copyfile(authority.trust, trust)
    admin = Admin(secured.url, tls=TlsOptions(trust_certs=trust, certificate=me.certificate, key=me.key))
    assert await admin.get("clusters") == ["standalone"]
    shutil.copyfile(Authority(tmp_path / "other").trust, trust)
    with pytest.raises(LogError):
        await admin.get("clusters", seconds=0)
    await admin.close()


@pytest.mark.parametrize("checked", [True, False])
async def test_the_name_in_a_brokers_certificate_is_checked_unless_that_is_turned_off(
    tmp_path: Path, authority: Authority, checked: bool
) -> None:
    server = authority.issue("broker")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate, server.key)
    web = Web(context)
    url = web.url.replace("127.0.0.1", "127.1")  # a name that the certificate does not contain
    admin = Admin(url, tls=TlsOptions(trust_certs=authority.trust, check_hostname=checked))
    try:
        if checked:
            with pytest.raises(LogError):
                await admin.get("clusters", seconds=0)
        else:
            assert await admin.get("clusters") == ["standalone"]
    finally:
        await admin.close()
        web.close()
