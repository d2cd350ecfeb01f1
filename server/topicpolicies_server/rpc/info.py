"""GetServerInfo: the version, the log, the features and the limits of this server."""

from __future__ import annotations

from importlib import metadata

from topicpolicies.v1 import service_pb2

from ..cluster.admission import Admission
from ..config import EmbeddedLogConfig, ServerConfig, Writer

_VERSION = metadata.version("topicpolicies")


def info(config: ServerConfig, admission: Admission | None) -> service_pb2.GetServerInfoResponse:
    """Returns the answer to GetServerInfo. ``admission``: knows the cluster; None: the cluster is not known."""
    limits = config.limits
    told = service_pb2.GetServerInfoResponse(
        version=_VERSION,
        log=_log_kind(config),
        cluster=admission.cluster_name if admission is not None else "",
        writer_mode=_writer_mode(config),
        features=_features(config, admission),
        limits=service_pb2.ServerLimits(
            message_bytes=limits.max_message_bytes,
            changes_per_stream=limits.max_in_flight_per_stream,
            watch_selectors=limits.max_selectors_per_watch,
            watches=limits.max_watches,
        ),
    )
    told.limits.update_timeout.FromMilliseconds(int(limits.update_timeout_seconds * 1000))
    return told


def _log_kind(config: ServerConfig) -> service_pb2.LogKind.ValueType:
    if not isinstance(config.log, EmbeddedLogConfig):
        return service_pb2.LOG_KIND_PULSAR
    return service_pb2.LOG_KIND_EMBEDDED if config.log.path is not None else service_pb2.LOG_KIND_MEMORY


def _writer_mode(config: ServerConfig) -> service_pb2.WriterMode.ValueType:
    if config.read_only:
        return service_pb2.WRITER_MODE_READ_ONLY
    if isinstance(config.log, EmbeddedLogConfig):
        return service_pb2.WRITER_MODE_SOLE
    return service_pb2.WRITER_MODE_EXCLUSIVE if config.log.writer is Writer.EXCLUSIVE else service_pb2.WRITER_MODE_SHARED


def _features(config: ServerConfig, admission: Admission | None) -> list[service_pb2.ServerFeature.ValueType]:
    found = []
    if config.history is not None:
        found.append(service_pb2.SERVER_FEATURE_HISTORY)
    if admission is not None:
        found += [service_pb2.SERVER_FEATURE_EFFECTIVE, service_pb2.SERVER_FEATURE_RULES]
    if config.show_secrets:
        found.append(service_pb2.SERVER_FEATURE_SECRETS)
    return found
