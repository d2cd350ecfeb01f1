"""GetServerInfo: the version, the log, the cluster and the writers of this server."""

from __future__ import annotations

from importlib import metadata

from topicpolicies.v1 import service_pb2

from ..cluster.admission import Admission
from ..config import EmbeddedLogConfig, ServerConfig, Writer

_VERSION = metadata.version("topicpolicies")


def info(config: ServerConfig, admission: Admission | None) -> service_pb2.ServerInfo:
    """Returns the answer to GetServerInfo. ``admission``: knows the cluster; None: the cluster is not known."""
    return service_pb2.ServerInfo(
        version=_VERSION,
        log=_log_kind(config),
        cluster=admission.cluster_name if admission is not None else "",
        writer_mode=_writer_mode(config),
    )


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
