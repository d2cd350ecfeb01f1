"""What is sent to a collector: what is wrong with it is said before the server starts."""

from __future__ import annotations

import importlib.util

import pytest

from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, TelemetryConfig, insecure


@pytest.mark.parametrize("endpoint", ["http://localhost:4318", "https://collector.example/otlp", "http://[::1]:4318"])
def test_an_address_is_taken(endpoint: str) -> None:
    assert TelemetryConfig(endpoint=endpoint).problems() == []


@pytest.mark.parametrize(
    "endpoint", ["", "localhost:4318", "grpc://a:1", "http://", "http://a:0", "http://a:99999", "http://a?x=1", "http://[::1"]
)
def test_what_is_no_address_is_refused(endpoint: str) -> None:
    (problem,) = TelemetryConfig(endpoint=endpoint).problems()
    assert "--otlp-endpoint" in problem


def test_credentials_do_not_stand_in_the_address() -> None:
    (problem,) = TelemetryConfig(endpoint="http://somebody:secret@a:4318").problems()
    assert "OTEL_EXPORTER_OTLP_HEADERS" in problem and "secret" not in problem


def test_without_the_package_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (problem,) = TelemetryConfig(endpoint="http://localhost:4318").problems()
    assert "topicpolicies[telemetry]" in problem


@pytest.mark.parametrize(("endpoint", "warned"), [("http://localhost:4318", 0), ("https://a:4318", 0), ("http://collector:4318", 1)])
def test_what_others_could_read_on_its_way_is_told_of(endpoint: str, warned: int) -> None:
    config = ServerConfig(log=EmbeddedLogConfig(path=None), telemetry=TelemetryConfig(endpoint=endpoint))
    assert len([sentence for sentence in insecure(config) if sentence.startswith("otlp_endpoint")]) == warned
