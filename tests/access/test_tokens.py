"""Which role a token names; any invalid token is refused, with a message that has nothing of the token."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.access import Caller, Way
from topicpolicies_server.access.identification import Identification
from topicpolicies_server.access.keys import public_key, secret_key
from topicpolicies_server.access.tokens import Tokens
from topicpolicies_server.config import TokenConfig
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

from .signing import NOW, SECRET, at_once, curve_key, der, edwards_key, part, pem, rsa_key, set_clock, signed, token, unsigned

RULES = TokenConfig()


def tokens(rules: TokenConfig = RULES, secret: bytes = SECRET, leeway: float = 0.0) -> Tokens:
    return Tokens((secret_key(secret),), rules, leeway)


def ask(verifier: Tokens, shown: str) -> Caller:
    return at_once(Identification(tokens=verifier).caller([("authorization", f"Bearer {shown}")]))


def refused(verifier: Tokens, shown: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        ask(verifier, shown)
    error = caught.value
    assert error.kind is Kind.UNAUTHENTICATED
    assert not any(len(each) > 5 and each in error.message for each in shown.split(".")), "the message has nothing of the token"
    return error


def test_the_role_is_the_subject_and_the_token_need_not_expire() -> None:
    assert ask(tokens(), token()) == Caller("alice", Way.TOKEN)
    assert ask(tokens(), token(exp=NOW + 3600)) == Caller("alice", Way.TOKEN, expires_at=NOW + 3600)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256", "EdDSA"])
def test_tokens_signed_with_private_keys_are_verified_with_the_public_keys(algorithm: str) -> None:
    key: Any = {"R": rsa_key(), "P": rsa_key(), "E": curve_key()}[algorithm[0]] if algorithm != "EdDSA" else edwards_key()
    verifier = Tokens((public_key(der(key)),), RULES)
    assert ask(verifier, token(key, algorithm)).principal == "alice"
    other: Any = {"R": rsa_key("other"), "P": rsa_key("other"), "E": curve_key("other")}[algorithm[0]]
    if algorithm != "EdDSA":
        assert refused(verifier, token(other, algorithm)).reason is Reason.CREDENTIALS_INVALID


def test_a_token_of_another_secret_or_with_other_claims_is_refused() -> None:
    good = token()
    head, _, signature = good.split(".")
    forged = f"{head}.{part(json.dumps({'sub': 'admin'}).encode())}.{signature}"
    for shown in (token(bytes(32)), forged, f"{good}A", good[:-4], f"{good.rpartition('.')[0]}."):
        assert refused(tokens(), shown).reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "HS1", "RS256", None, 5, ["HS256"], {}])
def test_the_header_does_not_choose_the_algorithm(algorithm: object) -> None:
    claims = {"sub": "admin"}
    for made in (unsigned({"alg": algorithm}, claims), signed({"alg": algorithm}, claims), signed({}, claims)):
        assert refused(tokens(), made).reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("form", [pem, der])
@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_public_key_does_not_verify_a_token_signed_with_it_as_a_secret(form: Any, algorithm: str) -> None:
    verifier = Tokens((public_key(der(rsa_key())),), RULES)
    forged = signed({"alg": algorithm, "typ": "JWT"}, {"sub": "admin"}, form(rsa_key()), f"sha{algorithm[2:]}")
    assert refused(verifier, forged).reason is Reason.CREDENTIALS_INVALID


def test_a_hash_longer_than_the_secret_is_refused() -> None:
    assert refused(tokens(), signed({"alg": "HS512"}, {"sub": "alice"}, digest="sha512")).reason is Reason.CREDENTIALS_INVALID
    assert ask(tokens(secret=bytes(64)), token(bytes(64), "HS512")).principal == "alice"


def test_tokens_expire_to_the_second_with_the_configured_leeway(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, NOW)
    patient = tokens(leeway=10.0)
    assert ask(tokens(), token(exp=NOW + 1, nbf=NOW, iat=NOW + 99)).expires_at == NOW + 1
    assert refused(tokens(), token(exp=NOW)).reason is Reason.CREDENTIALS_EXPIRED
    assert refused(tokens(), token(nbf=NOW + 1)).reason is Reason.CREDENTIALS_INVALID
    assert ask(patient, token(exp=NOW - 9, nbf=NOW + 10)).expires_at == NOW + 1
    assert refused(patient, token(exp=NOW - 10)).reason is Reason.CREDENTIALS_EXPIRED
    assert refused(patient, token(nbf=NOW + 11)).reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("value", ["soon", [1], {}, float("inf"), -1])
@pytest.mark.parametrize("name", ["exp", "nbf"])
def test_times_that_are_not_valid_numbers_are_refused(name: str, value: object) -> None:
    shown = signed({"alg": "HS256"}, {"sub": "alice", name: value})
    if value == -1 and name == "nbf":
        assert ask(tokens(), shown).principal == "alice"
    else:
        refused(tokens(), shown)


def test_the_audience_must_be_the_configured_one_if_there_is_one() -> None:
    verifier = tokens(TokenConfig(audience_claim="aud", audience="sidecar"))
    assert ask(verifier, token(aud="sidecar")).principal == ask(verifier, token(aud=["broker", "sidecar"])).principal == "alice"
    assert refused(verifier, _any_token({"audience": "sidecar"})).reason is Reason.CREDENTIALS_INVALID
    audiences: list[object] = [None, "sidecar2", [], ["side", "car"], 5, {"sidecar": 1}]
    for audience in audiences:
        assert refused(verifier, _any_token({"aud": audience})).reason is Reason.CREDENTIALS_INVALID
    assert ask(tokens(), token(aud="anybody")).principal == "alice"


def test_the_role_is_read_from_the_configured_claim_and_from_a_list_its_first_entry() -> None:
    verifier = tokens(TokenConfig(role_claim="roles"))
    assert ask(verifier, token(roles="bob")).principal == "bob"
    assert ask(verifier, token(roles=["bob", "eve"])).principal == "bob"
    for roles in ([], [5], "", None, 5, {"bob": 1}, [["bob"]]):
        assert refused(verifier, token(roles=roles)).reason is Reason.CREDENTIALS_INVALID
    assert refused(verifier, token()).reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("role", ["a\nb", "a\0", "\ud800", "a" * 257, " a", "a ", "\u202eeve", "\u2028"])
def test_a_role_that_can_not_be_shown_unambiguously_in_a_line_is_refused(role: str) -> None:
    assert refused(tokens(), _any_token({"sub": role})).reason is Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("role", ["a" * 256, "zoë", "cn=alice, o=acme", "spiffe://acme/ns/default", "管理者"])
def test_long_roles_and_roles_of_other_scripts_are_accepted(role: str) -> None:
    assert ask(tokens(), _any_token({"sub": role})).principal == role


@given(st.text() | st.binary().map(part) | st.lists(st.binary(max_size=40).map(part), min_size=3, max_size=3).map(".".join))
def test_arbitrary_text_is_refused_and_never_fails_in_another_way(shown: str) -> None:
    try:
        ask(tokens(), shown)
    except PolicyError as error:
        assert error.kind is Kind.UNAUTHENTICATED
    else:
        raise AssertionError("an unsigned token was accepted")


@given(st.data())
def test_a_changed_token_never_names_another_role(data: st.DataObject) -> None:
    good = token()
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + data.draw(st.sampled_from("ABCDEFGHabcdefgh0123-_.=")) + good[at + 1 :]
    try:
        assert ask(tokens(), changed).principal == "alice"  # the last character of a part has bits without meaning
    except PolicyError as error:
        assert error.reason is Reason.CREDENTIALS_INVALID


def _any_token(claims: dict[str, object]) -> str:
    """Returns a signed token with claims that a library would refuse to sign."""
    return signed({"alg": "HS256"}, {"sub": "alice"} | claims)


def test_tokens_of_each_of_several_keys_are_accepted_and_of_no_other() -> None:
    first, second, other = SECRET, bytes([1]) * 32, bytes([2]) * 32
    verifier = Tokens((secret_key(first), secret_key(second)), RULES)
    for key in (first, second):
        assert ask(verifier, token(key)).principal == "alice"
        assert refused(verifier, token(key, exp=NOW - 1)).reason is Reason.CREDENTIALS_EXPIRED
    assert refused(verifier, token(other)).reason is Reason.CREDENTIALS_INVALID
    verifier.keys = (secret_key(second),)
    assert refused(verifier, token(first)).reason is Reason.CREDENTIALS_INVALID
    assert ask(verifier, token(second)).principal == "alice"
