"""An evaluator of the part of PromQL that the alert rules use, over series that a test makes up.

It knows selectors with matchers, ``rate`` and ``increase``, ``sum by``, ``absent``, ``histogram_quantile``, ``time``, arithmetic,
comparisons that filter, ``and`` and ``or``, with ``on``. Anything else is refused. Rates are not extrapolated beyond the samples of their
window.

Source: https://prometheus.io/docs/prometheus/latest/querying/operators/ (precedence, matching of vectors).
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
Value: TypeAlias = Vector | float
_TOKEN = re.compile(r'\s*(\d+(?:\.\d+)?(?!\w)|"[^"]*"|[a-zA-Z_]\w*|\[\d+[smhd]\]|=~|==|[-/><=(){},])')
_LEVELS = (("or",), ("and",), ("==", ">", "<"), ("-",), ("/",))
"""The operators, by ascending precedence."""
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "-": operator.sub,
    "/": lambda a, b: a / b if b else float("nan") if not a else float("inf"),
}
_COMPARES: Mapping[str, Callable[[float, float], bool]] = {"==": operator.eq, ">": operator.gt, "<": operator.lt}
_MATCHES: Mapping[str, Callable[[str, str], bool]] = {"=": operator.eq, "=~": lambda value, pattern: bool(re.fullmatch(pattern, value))}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_STALE_SECONDS = 300.0


class Series(NamedTuple):
    """The samples of one series."""

    name: str
    labels: Labels
    samples: Sequence[tuple[float, float]]
    """Pairs of a time in seconds and the value then."""


def series(text: str, values: Sequence[float]) -> Series:
    """Returns a series that is written as in a selector, with a value for each minute from the time 0 on."""
    name, _, labels = text.partition("{")
    pairs = [("instance", "a"), *re.findall(r'(\w+)="([^"]*)"', labels)]
    return Series(name, frozenset(pairs), [(number * 60.0, float(value)) for number, value in enumerate(values)])


def seconds_of(text: str) -> float:
    """Returns the seconds of a duration such as ``5m``."""
    return float(text[:-1]) * UNITS[text[-1]]


def evaluated(query: str, scraped: Sequence[Series], at: float) -> Value:
    """Returns the value of a query at a time.

    Raises:
        ValueError: the query is malformed, or uses what this evaluator does not know.
    """
    reading = _Evaluating(list(_tokens(query)), scraped, at)
    found = reading.binary(0)
    if reading.next() != "":
        raise ValueError(f"what is this: {query}")
    return found


def fires(query: str, hold_seconds: float, scraped: Sequence[Series]) -> bool:
    """Returns whether an alert on a query fires at some time: a result with the same labels lasts for ``hold_seconds``."""
    end = max(each.samples[-1][0] for each in scraped)
    since: dict[Labels, float] = {}
    at = 0.0
    while at <= end:
        found = evaluated(query, scraped, at)
        assert isinstance(found, dict), "the query of an alert is not a vector"
        since = {labels: since.get(labels, at) for labels in found}
        if any(at - began >= hold_seconds for began in since.values()):
            return True
        at += 30.0
    return False


def _tokens(query: str) -> Iterator[str]:
    place = 0
    query = query.strip()
    while place < len(query):
        found = _TOKEN.match(query, place)
        if found is None:
            raise ValueError(f"what is this: {query[place:]}")
        yield found[0].strip()
        place = found.end()


class _Evaluating:
    """Parses the tokens of a query, and computes its value at the same time."""

    def __init__(self, tokens: list[str], scraped: Sequence[Series], at: float) -> None:
        self._tokens, self._scraped, self._at = tokens, scraped, at

    def next(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def take(self, *wanted: str) -> str:
        found = self._tokens.pop(0) if self._tokens else ""
        if wanted and found not in wanted:
            raise ValueError(f"{found!r} where one of {wanted} should be")
        return found

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self._single()
        left = self.binary(level + 1)
        while self.next() in _LEVELS[level]:
            sign = self.take()
            on = self._names() if self.next() == "on" and self.take() else None
            left = _combined(sign, left, self.binary(level + 1), on)
        return left

    def _single(self) -> Value:
        token = self.take()
        if token == "(":
            found = self.binary(0)
            self.take(")")
            return found
        if token[0].isdigit():
            return float(token)
        if token == "sum":
            self.take("by")
            by = self._names()
            return _summed(self._argument(), by)
        if token in ("rate", "increase"):
            self.take("(")
            return self._counted(per_second=token == "rate")
        if token == "absent":
            return {} if self._argument() else {frozenset(): 1.0}
        if token == "time":
            self.take("(")
            self.take(")")
            return self._at
        if token == "histogram_quantile":
            self.take("(")
            share = float(self.take())
            self.take(",")
            buckets = _vector(self.binary(0))
            self.take(")")
            return _quantiles(share, buckets)
        if not re.match(r"[a-z]+_", token):
            raise ValueError(f"unknown: {token}")
        now = ((each.labels, self._since(_STALE_SECONDS, each)) for each in self._selected(token))
        return {labels: values[-1] for labels, values in now if values}

    def _since(self, seconds: float, of: Series) -> list[float]:
        return [value for at, value in of.samples if self._at - seconds < at <= self._at]

    def _argument(self) -> Vector:
        self.take("(")
        found = self.binary(0)
        self.take(")")
        return _vector(found)

    def _names(self) -> set[str]:
        self.take("(")
        names = set()
        while self.next() != ")":
            names.add(self.take())
            if self.next() == ",":
                self.take()
        self.take(")")
        return names

    def _selected(self, name: str) -> list[Series]:
        found = [each for each in self._scraped if each.name == name]
        if self.next() == "{":
            self.take()
            while self.next() != "}":
                label, sign, wanted = self.take(), self.take(*_MATCHES), self.take().strip('"')
                found = [each for each in found if _MATCHES[sign](dict(each.labels).get(label, ""), wanted)]
                if self.next() == ",":
                    self.take()
            self.take("}")
        return found

    def _counted(self, *, per_second: bool) -> Vector:
        selected = self._selected(self.take())
        span = seconds_of(self.take().strip("[]"))
        self.take(")")
        found: Vector = {}
        for each in selected:
            values = self._since(span, each)
            if len(values) > 1:
                grown = sum(after - before if after >= before else after for before, after in itertools.pairwise(values))
                found[each.labels] = grown / span if per_second else grown
        return found


def _vector(value: Value) -> Vector:
    if not isinstance(value, dict):
        raise ValueError("a number where a vector should be")
    return value


def _key(labels: Labels, on: set[str] | None) -> Labels:
    return labels if on is None else frozenset(each for each in labels if each[0] in on)


def _combined(sign: str, left: Value, right: Value, on: set[str] | None) -> Value:
    if sign in ("and", "or"):
        left, right = _vector(left), _vector(right)
        keys = {_key(labels, on) for labels in right}
        if sign == "and":
            return {labels: value for labels, value in left.items() if _key(labels, on) in keys}
        mine = {_key(labels, on) for labels in left}
        return left | {labels: value for labels, value in right.items() if _key(labels, on) not in mine}
    if not isinstance(left, dict):
        if isinstance(right, dict) or sign not in _ARITHMETIC:
            raise ValueError("a number on the left")
        return _ARITHMETIC[sign](left, right)
    if any(isinstance(side, dict) and len({_key(labels, on) for labels in side}) < len(side) for side in (left, right)):
        raise ValueError("several series have the same labels")
    others = {_key(labels, on): value for labels, value in right.items()} if isinstance(right, dict) else right
    pairs = [(labels, value, others.get(_key(labels, on)) if isinstance(others, dict) else others) for labels, value in left.items()]
    both = [(labels, a, b) for labels, a, b in pairs if b is not None]
    if sign in _COMPARES:
        return {labels: a for labels, a, b in both if _COMPARES[sign](a, b)}
    return {_key(labels, on): _ARITHMETIC[sign](a, b) for labels, a, b in both}


def _summed(values: Vector, by: set[str]) -> Vector:
    found: Vector = {}
    for labels, value in values.items():
        key = _key(labels, by)
        found[key] = found.get(key, 0.0) + value
    return found


def _quantiles(share: float, buckets: Vector) -> Vector:
    grouped: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        grouped.setdefault(frozenset(each for each in labels if each[0] != "le"), []).append((float(dict(labels)["le"]), count))
    found: Vector = {}
    for labels, several in grouped.items():
        several.sort()
        rank, below, counted = share * several[-1][1], 0.0, 0.0
        if not rank:
            continue
        for upper, count in several:
            if count >= rank:
                found[labels] = below if upper == float("inf") else below + (upper - below) * (rank - counted) / (count - counted)
                break
            below, counted = upper, count
    return found
