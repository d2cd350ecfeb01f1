"""The finding of each check, and how checks are run: each in bounded time, whatever the others do."""

from __future__ import annotations

import asyncio
import email.utils
import errno
import gc
import json
import re
import socket
import ssl
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest

from tests.cli.doctor.planted import web_token, without_close_notify
from tests.client.certificates import Authority
from topicpolicies import Tls, TopicPoliciesError
from topicpolicies.addresses import Place
from topicpolicies_server.cli.doctor.brokers import judged_entry, judged_schema, judged_settings, judged_version
from topicpolicies_server.cli.doctor.certificates import ShownChain, judged_chain, judged_name, judged_times, shown
from topicpolicies_server.cli.doctor.checks import Check, Finding, Level, Result, examine, failed, ok, skipped, warning, why
from topicpolicies_server.cli.doctor.clocks import judged_clock
from topicpolicies_server.cli.doctor.disk import Facts, facts_of, judged_bound, judged_folder, judged_room
from topicpolicies_server.cli.doctor.metrics import OPEN_FILES, judged_limits, numbers
from topicpolicies_server.cli.doctor.permissions import judged_permissions
from topicpolicies_server.cli.doctor.reaching import Speech, judged
from topicpolicies_server.cli.doctor.report import lines, of_results, summary
from topicpolicies_server.cli.doctor.scratch import topic_in
from topicpolicies_server.cli.doctor.sidecar import judged_refusal
from topicpolicies_server.cli.doctor.tokens import claims_of, judged_token
from topicpolicies_server.logs.avro import PULSAR_4_2_4
from topicpolicies_server.logs.pulsar.admin.api import Answer

NOW = 1_800_000_000.0
GIGABYTE = 1 << 30


def check(name: str, run: Callable[[], Awaitable[Finding]], *needs: str, seconds: float = 10) -> Check:
    return Check(name=name, holds="it holds", why="It has to.", run=run, remedy="Mend it.", needs=needs, seconds=seconds)


def giving(finding: Finding) -> Callable[[], Awaitable[Finding]]:
    async def run() -> Finding:
        return finding

    return run


async def raising() -> Finding:
    raise ZeroDivisionError("by\nzero")


async def hanging() -> Finding:
    await asyncio.sleep(3600)
    return ok()


async def results(*checks: Check) -> dict[str, Result]:
    return {result.check.name: result async for result in examine(checks)}


async def test_a_check_that_raises_or_hangs_fails_and_the_others_are_run() -> None:
    found = await results(check("a.raises", raising), check("a.hangs", hanging, seconds=0.05), check("a.well", giving(ok("well"))))
    assert {name: result.finding.level for name, result in found.items()} == {
        "a.raises": Level.FAILED,
        "a.hangs": Level.FAILED,
        "a.well": Level.OK,
    }
    assert found["a.raises"].finding.told == "ZeroDivisionError: by zero"
    assert "0.05 s" in found["a.hangs"].finding.told
    assert found["a.hangs"].remedy == "Mend it." and not found["a.well"].remedy


async def test_a_check_that_needs_a_failed_or_skipped_check_is_skipped_and_names_it() -> None:
    found = await results(
        check("a.failed", giving(failed("no"))),
        check("a.above", giving(ok()), "a.failed"),
        check("a.higher", giving(ok()), "a.above"),
        check("a.warned", giving(warning("soon", "Hurry."))),
        check("a.on_it", giving(ok()), "a.warned"),
    )
    assert [result.finding.level.value for result in found.values()] == ["failed", "skipped", "skipped", "warning", "ok"]
    assert "a.failed" in found["a.above"].finding.told
    assert found["a.warned"].remedy == "Hurry."


async def test_lines_are_at_most_80_columns_wide_and_json_has_the_counts_and_remedies() -> None:
    found = list((await results(check("a.failed", giving(failed("no " * 90))), check("a.left", giving(skipped("nothing"))))).values())
    assert [line for result in found for line in lines(result) if len(line) > 80] == []
    document = json.loads(json.dumps(of_results(found)))
    assert (document["well"], document["counts"]) == (False, {"ok": 0, "warning": 0, "failed": 1, "skipped": 1})
    assert document["checks"][0]["remedy"] == "Mend it."


@pytest.mark.parametrize(
    ("speech", "tls", "level", "remedy"),
    [
        (Speech.HTTP2, False, Level.OK, ""),
        (Speech.TLS_HTTP2, True, Level.OK, ""),
        (Speech.TLS_HTTP2, False, Level.FAILED, "--tls"),
        (Speech.HTTP2, True, Level.FAILED, "--no-tls"),
        (Speech.TLS_OTHER, True, Level.FAILED, ""),
        (Speech.HTTP1, False, Level.FAILED, ""),
        (Speech.SILENT, True, Level.FAILED, ""),
    ],
)
def test_a_server_that_does_not_use_grpc_with_the_expected_tls_fails_the_check(
    speech: Speech, tls: bool, level: Level, remedy: str
) -> None:
    found = judged(speech, tls=tls)
    assert found.level is level and remedy in found.remedy


def test_the_chain_the_name_and_the_expiry_of_a_certificate_are_judged_separately() -> None:
    good = ShownChain({"notAfter": "Jan 15 08:00:00 2027 GMT", "subjectAltName": (("DNS", "a"),)})
    assert judged_times(good, NOW).level is Level.WARNING
    assert judged_times(good, NOW - 90 * 86_400).level is Level.OK
    assert judged_name(good, "a").level is judged_chain(good).level is Level.OK
    for code, chain, name, times in ((10, "ok", "ok", "failed"), (62, "ok", "failed", "skipped"), (20, "failed", "ok", "skipped")):
        refused = ShownChain({}, code, "why")
        assert [each.level.value for each in (judged_chain(refused), judged_name(refused, "a"), judged_times(refused, NOW))] == [
            chain,
            name,
            times,
        ]


def test_a_tls_peer_that_does_not_close_leaves_no_open_connection(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    with without_close_notify(authority.identity("server", "127.0.0.1")) as port, warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always")
        seen = asyncio.run(shown(Place("127.0.0.1", port), Tls(ca_file=authority.certificate), named=True))
        gc.collect()
    assert (seen.code, judged_chain(seen).level) == (0, Level.OK)
    assert [str(each.message) for each in left] == []


@pytest.mark.parametrize(
    ("off", "level"),
    [(0, "ok"), (0.9, "ok"), (-0.9, "ok"), (4, "ok"), (10, "warning"), (-10, "warning"), (120, "failed"), (-120, "failed")],
)
def test_a_clock_that_is_off_by_seconds_is_a_warning_and_by_minutes_a_failure(off: float, level: str) -> None:
    found = judged_clock(email.utils.formatdate(NOW + off, usegmt=True), NOW, NOW + 0.2)
    assert found.level.value == level
    assert ("ahead" in found.told) == (level != "ok" and off > 0) or off == 4


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 99 Foo 1"])
def test_a_response_without_a_valid_date_skips_the_check_of_the_clock(date: str | None) -> None:
    assert judged_clock(date, NOW, NOW).level is Level.SKIPPED


@pytest.mark.parametrize(
    ("claims", "level", "part"),
    [
        ({"sub": "sidecar"}, "ok", "does not expire"),
        ({"sub": "sidecar", "exp": NOW + 30 * 86_400}, "ok", "30.0 days"),
        ({"sub": "sidecar", "exp": NOW + 3_600}, "warning", "60 minutes"),
        ({"sub": "sidecar", "exp": NOW - 60}, "failed", "1 minutes ago"),
        ({"nbf": NOW + 60}, "failed", "valid only in 60 s"),
        ({"sub": 5, "exp": "soon"}, "ok", "no subject"),
    ],
)
def test_a_token_is_judged_by_its_claims_about_time(claims: dict[str, object], level: str, part: str) -> None:
    found = judged_token(web_token(**claims), NOW)
    assert found.level.value == level and part in found.told


@pytest.mark.parametrize("token", ["", "secret", "a.b", "a.b.c", "a.W10.c", "a.é.c", "....", "a." + "A" * 4_001 + ".c"])
def test_a_token_that_is_not_a_json_web_token_is_accepted_and_not_shown(token: str) -> None:
    assert claims_of(token) is None
    found = judged_token(token, NOW)
    assert found.level is Level.OK and (not token or token not in found.told)


def test_too_little_space_on_the_disk_and_a_nearly_full_history_are_reported() -> None:
    assert judged_folder(Facts("read-only", 0, 0)).level is Level.FAILED
    assert judged_room(Facts("", 0, 1 << 20), None).level is Level.FAILED
    assert judged_room(Facts("", 0, GIGABYTE // 2), None).level is Level.WARNING
    assert judged_room(Facts("", 0, GIGABYTE // 2), GIGABYTE).level is Level.WARNING
    assert judged_room(Facts("", 3 * GIGABYTE // 4, GIGABYTE // 2), GIGABYTE).level is Level.OK
    assert judged_bound(Facts("", 95, 0), 100).level is Level.WARNING
    assert judged_bound(Facts("", 5, 0), 100).level is Level.OK


def test_a_missing_folder_that_will_be_made_is_judged_by_its_parent_and_not_made(tmp_path: Path) -> None:
    assert facts_of(tmp_path / "a" / "b" / "p.db", made=True).problem == ""
    assert "a" in facts_of(tmp_path / "a" / "p.db", made=False).problem
    assert list(tmp_path.iterdir()) == []


def answer(status: int, content: object = "") -> Answer:
    return Answer(status, "phrase", {}, json.dumps(content).encode())


def test_the_version_the_settings_the_access_and_the_schema_of_a_broker_are_judged() -> None:
    assert judged_version("4.2.4").level is Level.OK
    for version, fault in (("4.0.0", "share one key"), ("4.0.9", "PIP-428"), ("5.x-weird", "not known")):
        assert judged_version(version).level is Level.WARNING and re.search(fault, judged_version(version).told)
    assert judged_settings(answer(200, {})).level is Level.OK
    assert judged_settings(answer(200, {"systemTopicEnabled": False})).level is Level.FAILED
    assert judged_settings(answer(200, [])).level is Level.FAILED
    assert judged_settings(answer(403)).level is Level.WARNING
    assert [judged_entry(answer(status), "it").level.value for status in (200, 404, 401, 403, 500)] == ["ok", "ok", *["failed"] * 3]
    assert judged_schema(PULSAR_4_2_4).level is Level.OK
    assert judged_schema('"string"').level is judged_schema("{").level is Level.FAILED


def test_the_use_of_limits_is_read_from_metrics_and_judged() -> None:
    text = """# HELP topicpolicies_namespaces x
topicpolicies_namespaces 90.0
topicpolicies_calls_in_progress{method="a"} 1.0
topicpolicies_calls_in_progress{method="b c} d"} 2.0
topicpolicies_limit{option="max_watches"} 7.0
process_open_fds 5.0
process_max_fds 10.0
topicpolicies_nan NaN
bad x
"""
    found_there = numbers(text)
    assert found_there.limits == {"max_watches": 7, OPEN_FILES: 10}
    assert found_there.used == {"max_loaded_namespaces": 90, "max_concurrent_calls": 3, OPEN_FILES: 5}
    assert "nan" not in found_there.values and "updates_total" not in found_there.values
    for used, level in ((10, "ok"), (80, "warning"), (100, "failed")):
        found = judged_limits({"max_loaded_namespaces": used}, {"max_loaded_namespaces": 100, "other": 1})
        assert found.level.value == level and (level == "ok" or "max_loaded_namespaces" in found.remedy)
    assert judged_limits({}, {"a": 1}).level is Level.SKIPPED


def test_missing_permissions_and_disabled_functions_are_listed() -> None:
    some = judged_permissions({"read": "", "change": "PERMISSION_DENIED", "list the history": "HISTORY_OFF"})
    assert (some.level, some.told) == (Level.OK, "you may read; not: change; off: list the history (the server keeps no history)")
    assert judged_permissions({"read": "", "change": "READ_ONLY"}).told == "you may read; off: change (the server is read-only)"
    assert judged_permissions(dict.fromkeys(("read", "change"), "PERMISSION_DENIED")).level is Level.FAILED


def test_a_refused_call_fails_with_the_remedy_of_its_status_code() -> None:
    for code, remedy in (
        (grpc.StatusCode.UNIMPLEMENTED, "port"),
        (grpc.StatusCode.UNAUTHENTICATED, "Authenticate yourself"),
        (grpc.StatusCode.INTERNAL, ""),
    ):
        found = judged_refusal(TopicPoliciesError("no", code=code))
        assert found.level is Level.FAILED and remedy in found.remedy


def test_a_scratch_topic_of_a_namespace_is_new_each_time_and_a_named_one_is_used() -> None:
    assert topic_in("a/b") != topic_in("a/b")
    assert topic_in("a/b").startswith("persistent://a/b/topicpolicies-doctor-")
    assert topic_in("persistent://a/b/c") == "persistent://a/b/c"
    assert topic_in("a/b/c") == "a/b/c"


def test_the_result_of_a_check_has_its_duration() -> None:
    began = time.monotonic()
    (found,) = asyncio.run(results(check("a.hangs", hanging, seconds=0.05))).values()
    assert 0.05 <= found.seconds <= time.monotonic() - began


@pytest.mark.parametrize(
    ("error", "description"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/a"), "/a: No such file or directory"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        (OSError("no HTTP:\nnothing"), "no HTTP: nothing"),
        (OSError(), "OSError"),
    ],
)
def test_errors_are_described_in_the_words_of_the_system_on_one_line(error: OSError, description: str) -> None:
    assert why(error) == description


async def test_one_check_and_one_warning_are_counted_as_one() -> None:
    found = await results(check("a", giving(warning("it is late"))))
    assert summary([*found.values()]) == "1 check: 0 failed, 1 warning, 0 skipped."
