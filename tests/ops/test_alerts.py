"""Each alert rule is evaluated: it fires over series that it is meant for, and not over similar series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from .promql import Series, evaluated, fires, seconds_of, series
from .test_monitoring import rules

HOUR = 60
"""The number of scrapes in an hour, one a minute."""
CALLS = "calls_total"


def steady(value: float, scrapes: int = HOUR) -> list[float]:
    """Returns the same value for every scrape."""
    return [value] * scrapes


def growing(each: float) -> list[float]:
    """Returns the values of a counter that grows by so much between two scrapes."""
    return [number * each for number in range(HOUR)]


def once(value: float) -> list[float]:
    """Returns values that change once, in the middle."""
    return [0.0] * (HOUR // 2) + [value] * (HOUR // 2)


def briefly(value: float, scrapes: int) -> list[float]:
    """Returns values that are 0 but for so many scrapes."""
    return [0.0] * 10 + [value] * scrapes + [0.0] * 20


class Case(NamedTuple):
    """Series for an alert, by their names without ``topicpolicies_``: some over which it fires, and some over which it does not."""

    fires: dict[str, Sequence[float]]
    quiet: dict[str, Sequence[float]]


def calls(code: str, reason: str = "") -> str:
    return f'{CALLS}{{method="UpdatePolicy",code="{code}",reason="{reason}"}}'


def buckets(slow: float) -> dict[str, Sequence[float]]:
    """Returns buckets with 100 updates between two scrapes, of which so many take from 1 to 2.5 seconds."""
    counts = {"0.1": 90.0, "1": 100 - slow, "2.5": 100.0, "+Inf": 100.0}
    return {f'call_seconds_bucket{{method="UpdatePolicy",le="{le}"}}': growing(count) for le, count in counts.items()}


LIMITS = {'limit{option="max_watches"}': steady(100), 'limit{option="max_concurrent_calls"}': steady(1_000)}
CASES: dict[str, Case] = {
    "Absent": Case({"ready": steady(1)}, {"build_info": steady(1)}),
    "NotReady": Case({"ready": steady(0)}, {"ready": [1, 1, 0, 1, 1, 1]}),
    "LogUnreachable": Case({"log_unreachable_seconds": [0, 20, 80, 0]}, {"log_unreachable_seconds": [0, 4, 29, 0]}),
    "Disconnected": Case(
        {"logs_open": steady(3), "logs_connected": steady(2)}, {"logs_open": steady(3), "logs_connected": [3, 3, 2, 3, 3, 3]}
    ),
    "Errors": Case(
        {calls("OK"): growing(90), calls("UNAVAILABLE", "LOG_UNAVAILABLE"): growing(10)},
        {calls("OK"): growing(97), calls("UNAVAILABLE", "LOG_UNAVAILABLE"): growing(3), calls("NOT_FOUND"): growing(50)},
    ),
    "InternalErrors": Case({calls("INTERNAL"): once(1)}, {calls("INTERNAL"): steady(5), calls("UNAVAILABLE"): growing(1)}),
    "Slow": Case(buckets(slow=2), buckets(slow=0.5)),
    "LogLosses": Case({'log_losses_total{reason="LOG_UNAVAILABLE"}': growing(1)}, {'log_losses_total{reason="LOG_UNAVAILABLE"}': once(3)}),
    "LoadFailures": Case(
        {'load_failures_total{reason="LOG_UNAVAILABLE"}': growing(1)}, {'load_failures_total{reason="LOG_UNAVAILABLE"}': once(3)}
    ),
    "AppendFailures": Case(
        {'append_failures_total{reason="LOG_UNAVAILABLE"}': growing(1)}, {'append_failures_total{reason="LOG_UNAVAILABLE"}': once(1)}
    ),
    "Lag": Case({"lag_seconds": steady(121)}, {"lag_seconds": briefly(500, 2)}),
    "ReaderLag": Case({"reader_lag_events": steady(1_001)}, {"reader_lag_events": briefly(5_000, 4)}),
    "Unread": Case({"unread_seconds": [10, 70, 130, 190, 250, 310]}, {"unread_seconds": [10, 70, 130, 0]}),
    "UnreadableEntries": Case({"unreadable_entries_total": once(1)}, {"unreadable_entries_total": steady(7)}),
    "RepairsDue": Case({"repairs_due": steady(2), "repairs_paused": steady(0)}, {"repairs_due": steady(2), "repairs_paused": steady(1)}),
    "RepairsPaused": Case({"repairs_paused": steady(1, 2 * HOUR)}, {"repairs_paused": briefly(1, 55)}),
    "HistoryFailing": Case(
        {"history_failing": steady(0), "history_waiting_bytes": steady(0), "history_waiting_seconds": growing(60)},
        {"history_failing": [0, 0, 1, 0, 0], "history_waiting_bytes": steady(1 << 20), "history_waiting_seconds": steady(2)},
    ),
    "HistoryGaps": Case({'history_gaps_total{reason="OVERRUN"}': once(1)}, {'history_gaps_total{reason="OVERRUN"}': steady(1)}),
    "Checkpoints": Case({"checkpoint_failures_total": once(1)}, {"checkpoint_failures_total": steady(3)}),
    "OverCapacity": Case({"over_capacity": steady(1)}, {"over_capacity": briefly(1, 4)}),
    "FileDescriptors": Case(
        {"process_open_fds": steady(850), "process_max_fds": steady(1_000)},
        {"process_open_fds": steady(790), "process_max_fds": steady(1_000)},
    ),
    "Limits": Case({"watches": steady(81), **LIMITS}, {"watches": steady(79), 'calls_in_progress{method="x"}': steady(700), **LIMITS}),
    "Certificate": Case({"certificate_end_seconds": steady(6 * 86_400.0)}, {"certificate_end_seconds": steady(8 * 86_400.0)}),
    "Files": Case({"files_unusable": steady(1)}, {"files_unusable": briefly(1, 1)}),
    "Drift": Case({'drifted_documents{namespace="a/b"}': steady(1)}, {'drifted_documents{namespace="a/b"}': briefly(1, 10)}),
    "Issuers": Case({"issuers_unanswered": steady(1)}, {"issuers_unanswered": briefly(1, 10)}),
    "AccessLog": Case({"access_log_lost_total": once(3)}, {"access_log_lost_total": steady(3)}),
}


def scraped(named: dict[str, Sequence[float]]) -> list[Series]:
    return [series(name if name.startswith("process_") else f"topicpolicies_{name}", values) for name, values in named.items()]


def rule(name: str) -> tuple[str, float]:
    """Returns the query of an alert, and for how many seconds it has to hold."""
    (found,) = [each for group in rules()["groups"] for each in group["rules"] if each["alert"] == f"TopicPolicies{name}"]
    return found["expr"], seconds_of(found.get("for", "0s"))


def test_every_alert_rule_has_a_case() -> None:
    assert {f"TopicPolicies{name}" for name in CASES} == {each["alert"] for group in rules()["groups"] for each in group["rules"]}


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_over_series_that_it_is_meant_for_and_not_over_similar_ones(name: str) -> None:
    query, hold = rule(name)
    case = CASES[name]
    assert fires(query, hold, scraped(case.fires))
    assert not fires(query, hold, scraped(case.quiet))


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("HistoryFailing", {"history_failing": steady(1)}),
        ("HistoryFailing", {"history_waiting_bytes": steady(1 << 27)}),
        ("Limits", {'calls_in_progress{method="x"}': steady(500), 'calls_in_progress{method="y"}': steady(400), **LIMITS}),
        ("Errors", {calls("OK"): growing(1), calls("DEADLINE_EXCEEDED"): growing(1)}),
    ],
)
def test_an_alert_with_several_causes_fires_for_each_of_them(name: str, more: dict[str, Sequence[float]]) -> None:
    query, hold = rule(name)
    assert fires(query, hold, scraped(more))


def test_the_evaluator_computes_queries_as_prometheus_does_and_refuses_others() -> None:
    some = [
        series('t_a{x="1"}', [1, 2, 4, 1, 2]),
        series('t_a{x="2"}', [10, 10, 10, 10, 10]),
        series("t_b", [2, 2, 2, 2, 2]),
        *(series(f't_bucket{{le="{le}"}}', [0, count]) for le, count in (("1", 50), ("2", 100), ("+Inf", 100))),
    ]
    instance = ("instance", "a")
    one, two, alone = frozenset({instance, ("x", "1")}), frozenset({instance, ("x", "2")}), frozenset({instance})
    assert evaluated("t_a", some, 125) == {one: 4, two: 10}
    assert evaluated('t_a{x="1"}', some, 1_000) == {}, "a series is not stale after five minutes without a sample"
    assert evaluated("increase(t_a[5m])", some, 240) == {one: 5, two: 0}, "the reset of a counter is not recognized"
    assert evaluated("sum by (instance) (t_a)", some, 0) == {alone: 11}
    assert evaluated('t_a{x=~"1|3"} / on (instance) t_b - 1', some, 0) == {alone: -0.5}
    assert evaluated("t_a > 5 or t_b > 1", some, 0) == {two: 10, alone: 2}
    assert evaluated("t_a > 5 and on (instance) t_b == 3", some, 0) == {}
    assert evaluated("t_b - time() < 0", some, 60) == {alone: -58}
    assert evaluated("absent(t_c)", some, 0) == {frozenset(): 1} and evaluated("absent(t_b)", some, 0) == {}
    assert evaluated("histogram_quantile(0.75, rate(t_bucket[5m]))", some, 60) == {alone: 1.5}
    for wrong in ("t_a -", "t_a ! 5", "avg by (x) (t_a)", "t_a t_b", "delta(t_a[5m])", "t_a / on (instance) t_b"):
        with pytest.raises((ValueError, IndexError)):
            evaluated(wrong, some, 0)
