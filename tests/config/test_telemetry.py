"""The configuration of telemetry is checked before the server starts."""

from __future__ import annotations

import pytest

from topicpolicies_server.config import ConfigError, EmbeddedLogConfig, ServerConfig, TelemetryConfig, insecure
from topicpolicies_server.config.sources import options

ENDPOINT = options()["otlp_endpoint"]


@pytest.mark.parametrize("endpoint", ["http://localhost:4318", "https://collector.example/otlp", "http://[::1]:4318"])
def test_a_url_of_http_or_https_is_accepted_as_the_endpoint(endpoint: str) -> None:
    assert ENDPOINT.read(endpoint) == endpoint


@pytest.mark.parametrize(
    "endpoint", ["localhost:4318", "grpc://a:1", "http://", "http://a:0", "http://a:99999", "http://a#x", "http://[::1"]
)
def test_an_endpoint_that_is_not_a_valid_url_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="otlp_endpoint must be http://host"):
        ENDPOINT.read(endpoint)


def test_credentials_in_the_endpoint_are_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="without credentials") as caught:
        ENDPOINT.read("http://somebody:secret@a:4318")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("endpoint", "warned"), [("http://localhost:4318", 0), ("https://a:4318", 0), ("http://collector:4318", 1)])
def test_only_unencrypted_telemetry_to_another_machine_is_reported_as_insecure(endpoint: str, warned: int) -> None:
    config = ServerConfig(log=EmbeddedLogConfig(path=None), telemetry=TelemetryConfig(endpoint=endpoint))
    assert len([sentence for sentence in insecure(config) if sentence.startswith("otlp_endpoint")]) == warned
