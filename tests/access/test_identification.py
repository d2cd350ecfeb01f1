"""Which credential of a call decides who the caller is, and for whom a proxy speaks."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.access.caller import ORIGINAL_KEY
from topicpolicies_server.access.identification import AUTHORIZATION_KEY, MOST, Identification
from topicpolicies_server.access.keys import secret_key
from topicpolicies_server.access.tokens import Tokens
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

from .certificates import certificate
from .signing import NOW, SECRET, at_once, set_clock, token

BOTH = Identification(tokens=Tokens((secret_key(SECRET),)), certificates=True, proxy_roles=frozenset({"gateway", "other"}))
CAROL = certificate("carol")


class CallCredentials(NamedTuple):
    """What a call shows."""

    authorization: str | None = None
    certificate: bytes | None = None
    original: str = ""


def ask(given: CallCredentials, way: Identification = BOTH) -> Caller:
    metadata = [*([(AUTHORIZATION_KEY, given.authorization)] if given.authorization is not None else [])]
    metadata += [(ORIGINAL_KEY, given.original)] if given.original else []
    return at_once(way.caller(metadata, lambda: given.certificate))


def refused(given: CallCredentials, way: Identification = BOTH) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        ask(given, way)
    return caught.value


def test_a_token_takes_precedence_over_a_certificate() -> None:
    assert ask(CallCredentials(f"Bearer {token()}", CAROL))[:2] == ("alice", Way.TOKEN)
    assert ask(CallCredentials(None, CAROL))[:2] == ("carol", Way.CERTIFICATE)


def test_an_invalid_token_is_refused_whatever_else_is_given() -> None:
    for shown in (token(bytes(32)), token(exp=1), "garbage", ""):
        assert refused(CallCredentials(f"Bearer {shown}", CAROL)).kind is Kind.UNAUTHENTICATED


def test_a_token_is_ignored_if_the_server_accepts_no_tokens() -> None:
    certificates = Identification(certificates=True)
    assert ask(CallCredentials("Bearer garbage", CAROL), certificates).principal == "carol"
    assert refused(CallCredentials("Bearer garbage"), certificates).reason is Reason.CREDENTIALS_MISSING


def test_the_error_for_missing_credentials_names_those_that_are_accepted() -> None:
    error = refused(CallCredentials())
    assert (error.kind, error.reason) == (Kind.UNAUTHENTICATED, Reason.CREDENTIALS_MISSING)
    assert "Bearer TOKEN" in error.message and "client certificate" in error.message
    only = Identification(tokens=Tokens((secret_key(SECRET),)))
    assert "certificate" not in refused(CallCredentials(None, CAROL), only).message


@pytest.mark.parametrize("scheme", ["bearer", "Bearer", "BEARER"])
def test_the_scheme_is_read_in_any_case(scheme: str) -> None:
    assert ask(CallCredentials(f"{scheme} {token()}")).principal == "alice"
    assert ask(CallCredentials(f"{scheme}   {token()} ")).principal == "alice"


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Basic YTpi", token(), f"Token {token()}"])
def test_authorization_that_is_not_a_bearer_token_is_refused(authorization: str) -> None:
    assert refused(CallCredentials(authorization, CAROL)).reason is Reason.CREDENTIALS_INVALID


def test_a_call_of_a_proxy_has_the_proxy_and_the_principal_for_whom_it_speaks() -> None:
    caller = ask(CallCredentials(f"Bearer {token(sub='gateway')}", None, "alice"))
    assert (caller.principal, caller.speaks_for, caller.role) == ("gateway", "alice", "alice")
    assert ask(CallCredentials(f"Bearer {token()}")).role == "alice"


@pytest.mark.parametrize("original", ["", "gateway", "other", "a\nb", "x" * 257, " a"])
def test_a_proxy_that_speaks_for_no_valid_principal_or_for_a_proxy_is_refused(original: str) -> None:
    error = refused(CallCredentials(f"Bearer {token(sub='gateway')}", None, original))
    assert (error.kind, error.reason) == (Kind.PERMISSION_DENIED, Reason.PROXY_REFUSED)


@pytest.mark.parametrize("original", ["bob", "alice", "gateway"])
def test_a_caller_that_is_not_a_proxy_may_not_name_an_original_principal(original: str) -> None:
    for given in (CallCredentials(f"Bearer {token()}", None, original), CallCredentials(None, CAROL, original)):
        error = refused(given)
        assert (error.kind, error.reason) == (Kind.PERMISSION_DENIED, Reason.PROXY_REFUSED)


def test_the_original_principal_is_not_remembered_with_the_token_of_a_proxy() -> None:
    shown = f"Bearer {token(sub='gateway')}"
    assert ask(CallCredentials(shown, None, "alice")).speaks_for == "alice"
    assert ask(CallCredentials(shown, None, "bob")).speaks_for == "bob"
    assert refused(CallCredentials(shown)).reason is Reason.PROXY_REFUSED


def test_a_token_that_was_verified_is_remembered_until_keys_change() -> None:
    tokens = Tokens((secret_key(SECRET),))
    way = Identification(tokens=tokens)
    shown = CallCredentials(f"Bearer {token()}")
    assert ask(shown, way) is ask(shown, way)
    tokens.keys = (secret_key(bytes(32)),)
    way.forget()
    assert refused(shown, way).reason is Reason.CREDENTIALS_INVALID


def test_a_remembered_token_is_refused_after_it_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Identification(tokens=Tokens((secret_key(SECRET),)))
    shown = CallCredentials(f"Bearer {token(exp=NOW + 36_000, nbf=NOW - 36_000)}")
    ask(shown, way)
    with monkeypatch.context() as patched:
        set_clock(patched, NOW + 36_000)
        assert refused(shown, way).reason is Reason.CREDENTIALS_EXPIRED
    ask(shown, way)


def test_the_number_of_remembered_tokens_is_bounded() -> None:
    way = Identification(tokens=Tokens((secret_key(SECRET),)))
    for number in range(MOST + 5):
        ask(CallCredentials(f"Bearer {token(jti=str(number))}"), way)
    refused(CallCredentials(f"Bearer {token(bytes(32))}"), way)
    assert len(way._remembered) == MOST
