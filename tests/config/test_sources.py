"""The values in force and their sources: flag before environment before file before default; all errors are reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.config import ConfigError, EmbeddedLogConfig, Limits, ServerConfig
from topicpolicies_server.config.building import guard_config, server_config
from topicpolicies_server.config.rendering import written_value
from topicpolicies_server.config.sources import OptionValues, options, read_options

HOME = {"HOME": "/somewhere/mine"}
BROKERS = {"pulsar": "pulsar://broker:6650", "admin_url": "http://broker:8080"}


def found(
    flags: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None, file: Path | None = None
) -> OptionValues:
    return read_options(flags or {}, environment or {}, file)


def made(flags: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None, file: Path | None = None) -> ServerConfig:
    around = HOME | dict(environment or {})
    return server_config(read_options(flags or {}, around, file), around)


def problems(**given: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        made(**given)
    return caught.value.problems


def written(directory: Path, text: str) -> Path:
    path = directory / "sidecar.toml"
    path.write_text(text)
    return path


def test_a_flag_precedes_the_environment_which_precedes_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "max_watches = 2\nmax_concurrent_calls = 20\ndrain_seconds = 5\n")
    environment = {"TOPICPOLICIES_MAX_WATCHES": "3", "TOPICPOLICIES_MAX_CONCURRENT_CALLS": "30"}
    settings = found({"max_watches": "4"}, environment, file).settings
    sources = {name: (settings[name].value, settings[name].source, settings[name].where) for name in settings}
    assert sources["max_watches"] == (4, "flag", "--max-watches")
    assert sources["max_concurrent_calls"] == (30, "environment", "TOPICPOLICIES_MAX_CONCURRENT_CALLS")
    assert sources["drain_seconds"] == (5.0, "file", str(file))
    assert sources["max_message_bytes"] == (4 << 20, "default", "")
    limits = made({"max_watches": "4"}, environment, file).limits
    assert limits == Limits(max_watches=4, max_concurrent_calls=30, drain_seconds=5.0)


def test_the_environment_names_the_file_of_options_unless_a_flag_does(tmp_path: Path) -> None:
    named, other = written(tmp_path, "max_watches = 2"), tmp_path / "other.toml"
    other.write_text("max_watches = 3")
    environment = {"TOPICPOLICIES_CONFIG": str(named)}
    assert found({}, environment).settings["max_watches"].value == 2
    assert found({}, environment, other).settings["max_watches"].value == 3


def test_an_empty_environment_variable_is_ignored(tmp_path: Path) -> None:
    file = written(tmp_path, "max_watches = 2")
    assert found({}, {"TOPICPOLICIES_MAX_WATCHES": "", "TOPICPOLICIES_CONFIG": ""}, file).settings["max_watches"].value == 2


def test_a_path_in_the_file_is_relative_to_the_file_and_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert found(file=written(tmp_path, 'data = "a/p.db"')).settings["data"].value == tmp_path / "a/p.db"
    assert found(file=written(tmp_path, 'data = "/a/p.db"')).settings["data"].value == Path("/a/p.db")
    assert found(file=written(tmp_path, 'data = "~/p.db"')).settings["data"].value == tmp_path / "home/p.db"
    assert found({}, {"TOPICPOLICIES_DATA": "~/p.db"}).settings["data"].value == tmp_path / "home/p.db"
    assert found({}, {"TOPICPOLICIES_DATA": "p.db"}).settings["data"].value == Path("p.db")


def test_an_unknown_key_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    text = "max_watchs = 1\nmax-loaded-namespaces = 1\nsomething_else = 1\n[limits]\nmax_watches = 1\n"
    file = written(tmp_path, text)
    assert problems(file=file) == (
        f"'max_watchs' in {file} is not an option: did you mean max_watches?",
        f"'max-loaded-namespaces' in {file} is not an option: did you mean max_loaded_namespaces?",
        f"'something_else' in {file} is not an option: topicpolicies config shows all options.",
        f"'limits' in {file} is a table: options are at the top level of the file.",
    )


def test_a_misspelled_variable_is_refused_and_variables_of_orchestrators_are_ignored() -> None:
    assert problems(environment={"TOPICPOLICIES_MAX_WATCHS": "1"}) == (
        "TOPICPOLICIES_MAX_WATCHS is not an option: did you mean TOPICPOLICIES_MAX_WATCHES?",
    )
    added = {
        "TOPICPOLICIES_SERVICE_HOST": "10.0.0.1",
        "TOPICPOLICIES_SERVICE_PORT_GRPC": "6680",
        "TOPICPOLICIES_PORT": "tcp://10.0.0.1:6680",
        "TOPICPOLICIES_PORT_6680_TCP_ADDR": "10.0.0.1",
        "TOPICPOLICIES_PULSAR_PORT": "tcp://10.0.0.1:6680",
        "TOPICPOLICIES_GUARD_SERVICE_HOST": "10.0.0.1",
        "TOPICPOLICIES_OF_SOMEBODY_ELSE": "x",
    }
    clients = {"TOPICPOLICIES_SERVER": "x:1", "TOPICPOLICIES_ACTOR": "me", "TOPICPOLICIES_REASON": "r", "TOPICPOLICIES_OUTPUT": "json"}
    made(environment=added | clients)
    assert sorted(found({}, added | clients).ignored) == sorted(added)


def test_all_errors_are_reported_at_once_each_with_its_source(tmp_path: Path) -> None:
    file = written(tmp_path, 'max_watches = 0\nwriter = "nobody"\nread_only = 1\nguard = "acme"\n')
    environment = {"TOPICPOLICIES_MAX_CONCURRENT_CALLS": "many", "TOPICPOLICIES_LISTEN": "nowhere", "TOPICPOLICIES_LISTN": "a:1"}
    flags = {"drain_seconds": "nan", "history_days": "0", "pulsar": "pulsar://b:6650", "admin_url": "", "tls_client_ca": tmp_path / "gone"}
    assert set(problems(flags=flags, environment=environment, file=file)) == {
        f"max_watches must be a whole number from 1 to 1,000,000, not 0 ({file}).",
        f"writer must be shared or exclusive, not 'nobody' ({file}).",
        f"read_only must be true or false, not 1 ({file}).",
        "max_concurrent_calls must be a whole number from 16 to 1,000,000, not 'many' (TOPICPOLICIES_MAX_CONCURRENT_CALLS).",
        "listen must be host:port, [IPv6 address]:port or unix:/path (TOPICPOLICIES_LISTEN).",
        "TOPICPOLICIES_LISTN is not an option: did you mean TOPICPOLICIES_LISTEN?",
        "drain_seconds must be a number from 0.0 to 600.0, not 'nan' (--drain-seconds).",
        "history_days must be a whole number from 1 to 36,600, not '0' (--history-days).",
        "--pulsar goes with --admin-url.",
        "--tls-client-ca goes with --tls-certificate and --tls-key.",
        f"guard must be tenant/namespace, with * for any characters, not 'acme' ({file}).",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't be read: No such file"),
        (b"max_watches = ", "is not TOML"),
        (b"max_watches = " + b"9" * 5000, "is not TOML"),
        (b"a = " + b"[" * 100_000, "is not TOML"),
        (b"\xff = 1", "is not UTF-8"),
        (b'data = "a\\u0000b"', "data must be a path"),
        (b'data = ""', "data must be a path"),
        (b"max_watches = true", "max_watches must be a whole number from 1 to 1,000,000, not True"),
        (b"max_watches = 1.5", "max_watches must be a whole number from 1 to 1,000,000, not 1.5"),
        (b"max_watches = 1979-05-27", "max_watches must be a whole number"),
        (b"drain_seconds = inf", "drain_seconds must be a number from"),
        (b"guard = [1]", "guard must be a list"),
        (b'pulsar = "a\\nb"', "pulsar must be a text"),
    ],
)
def test_an_unusable_file_of_options_is_reported_in_a_sentence(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    assert any(message in problem for problem in problems(file=path))


def test_a_directory_in_place_of_the_file_is_reported_in_a_sentence(tmp_path: Path) -> None:
    assert any("can't be read: Is a directory" in problem for problem in problems(file=tmp_path))


def test_without_options_the_embedded_log_is_in_the_users_data_folder() -> None:
    config = made()
    folder = Path("/somewhere/mine/.local/share/topicpolicies")
    assert config.log == EmbeddedLogConfig(path=folder / "policies.db")
    assert config.history is not None and config.history.path == folder / "policies.history.db"
    assert config.data_folder == folder
    assert made(environment={"XDG_DATA_HOME": "/data"}).data_folder == Path("/data/topicpolicies")


def test_a_configured_folder_is_not_created(tmp_path: Path) -> None:
    config = made({"data": tmp_path / "p.db"})
    assert config.data_folder is None
    assert made({"history": tmp_path / "h.db"}).data_folder == Path("/somewhere/mine/.local/share/topicpolicies")


@pytest.mark.parametrize("option", ["history", "checkpoints", "access_log_file"])
def test_what_a_server_writes_needs_files_of_its_own(tmp_path: Path, option: str) -> None:
    (tmp_path / "here").symlink_to(tmp_path)
    (problem,) = problems(flags={"data": tmp_path / "p.db", option: tmp_path / "here" / "p.db"})
    assert problem.endswith("give each a file of its own.")


def test_calls_and_metrics_need_different_addresses() -> None:
    one = "127.0.0.1:7000"
    assert problems(flags={"listen": one, "metrics_listen": one}) == (
        f"Calls and metrics are both configured for {one}: give each an address of its own.",
    )
    made({"listen": "127.0.0.1:0", "metrics_listen": "127.0.0.1:0"})


def test_checkpoints_are_beside_the_embedded_log_unless_configured_otherwise(tmp_path: Path) -> None:
    def path(**flags: object) -> Path | None:
        return made({"data": tmp_path / "p.db", **flags}).checkpoints

    assert path() == tmp_path / "p.checkpoints"
    assert path(checkpoints=tmp_path / "c.db") == tmp_path / "c.db"
    assert path(no_checkpoints=True) is None
    pulsar = {"pulsar": "pulsar://b:6650", "admin_url": "http://b:8080"}
    assert made(pulsar).checkpoints is None
    assert made({**pulsar, "checkpoints": tmp_path / "c.db"}).checkpoints == tmp_path / "c.db"
    both = problems(flags={"data": tmp_path / "p.db", "checkpoints": tmp_path / "c.db", "no_checkpoints": True})
    assert both == ("--checkpoints goes without --no-checkpoints.",)


def test_an_empty_pulsar_option_does_not_change_the_path_of_the_embedded_log(tmp_path: Path) -> None:
    named = written(tmp_path, f'pulsar = ""\ndata = "{tmp_path}/mine.db"')
    log = made(file=named).log
    assert isinstance(log, EmbeddedLogConfig) and log.path == tmp_path / "mine.db"
    log = made({"pulsar": ""}, {"XDG_DATA_HOME": "/data", "TOPICPOLICIES_PULSAR": BROKERS["pulsar"]}).log
    assert isinstance(log, EmbeddedLogConfig) and log.path == Path("/data/topicpolicies/policies.db")


def test_both_logs_are_refused_whatever_sources_name_them(tmp_path: Path) -> None:
    there = {"TOPICPOLICIES_DATA": str(tmp_path / "p.db")}
    file = written(tmp_path, f'data = "{tmp_path}/p.db"')
    sources: dict[str, dict[str, Any]] = {
        "--data": {"flags": BROKERS | {"data": tmp_path / "p.db"}, "environment": there},
        "TOPICPOLICIES_DATA": {"flags": BROKERS, "environment": there},
        f"data ({file})": {"flags": BROKERS, "file": file},
    }
    for named, source in sources.items():
        assert problems(**source) == (f"{named} goes with the embedded log, not with --pulsar: there is one change log.",)


def test_options_that_go_with_others_are_refused_without_these(tmp_path: Path) -> None:
    assert problems(flags={"admin_url": BROKERS["admin_url"], "writer": "exclusive"}) == ("--admin-url, --writer go with --pulsar.",)
    assert problems(flags=BROKERS | {"cluster_file": tmp_path / "none"}) == (
        "--cluster-file goes with the embedded log, not with --pulsar: there is one change log.",
    )
    key = {"TOPICPOLICIES_TOKEN_SECRET_KEY": str(tmp_path / "none")}
    assert problems(environment=key) == ("TOPICPOLICIES_TOKEN_SECRET_KEY goes with --authentication-providers token.",)
    off = {"TOPICPOLICIES_NO_HISTORY": "true", "TOPICPOLICIES_DATA": str(tmp_path / "p.db")}
    assert made(environment=off).history is None
    assert problems(flags={"history": tmp_path / "h.db"}, environment=off) == ("--history goes without TOPICPOLICIES_NO_HISTORY.",)


def test_an_address_without_tls_is_told_beside_problems_that_are_not_of_callers(tmp_path: Path) -> None:
    open_to_all = {"listen": "0.0.0.0:9999", "history": tmp_path / "h", "no_history": True}
    contradiction, exposure = problems(flags=open_to_all)
    assert contradiction == "--history goes without --no-history." and "give the server TLS" in exposure
    assert problems(flags={"listen": "0.0.0.0:9999", "tls_client_ca": tmp_path / "none"}) == (
        "--tls-client-ca goes with --tls-certificate and --tls-key.",
    )


def test_an_empty_address_is_none_where_there_need_not_be_one(tmp_path: Path) -> None:
    config = made(file=written(tmp_path, 'metrics_listen = ""\nadvertise = ""'))
    assert (config.metrics_listen, config.advertise) == (None, None)
    assert any(each.startswith("listen must be") for each in problems(file=written(tmp_path, 'listen = ""')))


def test_a_password_in_a_url_is_not_shown_in_errors() -> None:
    found_problems = problems(flags={"pulsar": "pulsar://me:sword/fish@broker:6650", "admin_url": "http://me:sword/fish@broker:8080"})
    assert len(found_problems) == 2 and not any("fish" in problem for problem in found_problems)


_WITH_PASSWORD = "https://me:sword/fish@issuer.example/realm"


@pytest.mark.parametrize(
    "flags",
    [
        {"oidc_issuers": _WITH_PASSWORD, "oidc_audiences": "sidecar"},
        {"oidc_issuers": _WITH_PASSWORD, "oidc_audiences": "sidecar", "oidc_jwks_file": __file__},
        {"otlp_endpoint": f"{_WITH_PASSWORD}?a=b"},
        {"pulsar": [_WITH_PASSWORD]},
        {"pulsar": "me:sword/fish@broker:6650"},
        {"pulsar": "pulsar://broker:6650", "admin_url": "http:/me:sword/fish@broker:8080"},
        {"otlp_endpoint": "me:sword//fish@collector:4318"},
        {"oidc_issuers": "me:sword/fish@issuer.example", "oidc_audiences": "sidecar"},
        {"listen": "me:sword/fish@127.0.0.1:6680"},
        {"advertise": "http://me:sword/fish@sidecar:6680"},
    ],
    ids=[
        "an issuer",
        "an issuer with a file of keys",
        "a collector",
        "a list in place of a text",
        "without a scheme",
        "a wrong scheme",
        "a collector without a scheme",
        "an issuer without a scheme",
        "an address",
        "an address written as a URL",
    ],
)
def test_a_password_in_any_url_is_refused_and_not_told(flags: dict[str, object]) -> None:
    ways = {"authentication_providers": "oidc", "allow_authenticated": True} if "oidc_issuers" in flags else {}
    said = problems(flags=flags | ways)
    assert said and not any("fish" in problem for problem in said)


def test_a_role_with_a_colon_and_an_at_sign_is_shown_as_it_is() -> None:
    assert written_value(("user:alice@acme.example",)) == "user:alice@acme.example"


def test_a_byte_order_mark_at_the_beginning_of_a_file_is_ignored(tmp_path: Path) -> None:
    assert made(file=written(tmp_path, "\ufeffmax_watches = 7\n")).limits.max_watches == 7


def test_a_guard_reads_the_same_sources(tmp_path: Path) -> None:
    file = written(tmp_path, 'pulsar = "pulsar://broker:6650"\nadmin_url = "http://broker:8080"\nmax_watches = 7\n')
    config = guard_config(read_options({"report_only": True}, {"TOPICPOLICIES_GUARD": "acme/*"}, file))
    assert (config.guard, config.report_only, config.log.service_url) == (("acme/*",), True, "pulsar://broker:6650")


def test_a_guard_needs_brokers_and_their_admin_api(tmp_path: Path) -> None:
    issuer = {"pulsar_oauth2_issuer": "https://issuer.example"}
    for flags, problem in (
        ({}, "A guard goes with --pulsar and --admin-url."),
        ({"pulsar": BROKERS["pulsar"]}, "A guard goes with --admin-url."),
        (BROKERS | issuer, "--pulsar-oauth2-issuer goes with --pulsar-oauth2-credentials."),
    ):
        with pytest.raises(ConfigError) as caught:
            guard_config(read_options({"guard": ("acme/*",), **flags}, {}))
        assert caught.value.problems == (problem,)


@given(st.dictionaries(st.sampled_from([option.variable for option in options().values()]), st.text(), max_size=8))
def test_any_environment_gives_a_configuration_or_a_configuration_error(environment: dict[str, str]) -> None:
    try:
        made(environment={name: value for name, value in environment.items() if "\0" not in value})
    except ConfigError as error:
        assert error.problems
