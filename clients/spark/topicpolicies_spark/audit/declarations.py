"""Declared documents: reads and checks the file with which ``drift --declared`` compares the live documents.

A word that is not known would be no difference, and so hide one. So each line is checked before anything is compared.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from topicpolicies.names import namespace_of, topic_name
from topicpolicies.v1.policies_pb2 import PolicyDocument, TopicPolicies
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies import secrets
from topicpolicies_server.core.policies.documents import split

from .. import documents
from .questions import KEY, STATE

_DERIVED = frozenset(STATE) - {"topic", "scope", "policies"}
"""Further columns of a state, so that an exported state is a declaration."""
_ARROW = pa.schema([*(pa.field(name, pa.string()) for name in KEY), pa.field("policies", documents.ARROW_TYPE)])


class DeclarationError(ValueError):
    """A line of the file declares no document; the message names the line and what is wrong with it."""


def declared(spark: SparkSession, path: str) -> DataFrame:
    """Reads declared documents: JSON lines with ``topic``, ``scope`` (LOCAL if left out), and ``policies`` with the API's field names.

    Topics may have any of their names, and ``version`` and other columns of a state do not matter. Secrets are not compared.

    Args:
        spark: the session.
        path: a file, or any place that Spark can read.

    Raises:
        DeclarationError: a line is not such an object, or has a name or a value that is not known; or a document is declared twice.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for number, (text,) in enumerate(spark.read.text(path).collect(), 1):
        line = text.removeprefix("\ufeff").strip()
        if not line:
            continue
        try:
            row = _row(line)
        except (ValueError, json_format.ParseError) as error:
            raise DeclarationError(f"Line {number} of {path} declares no document: {error}") from error
        key = row["topic"], row["scope"]
        if key in rows:
            raise DeclarationError(f"Line {number} of {path} declares the {key[1]} document of {key[0]} once more.")
        rows[key] = row
    return spark.createDataFrame(pa.Table.from_pylist(list(rows.values()), schema=_ARROW), from_arrow_schema(_ARROW))


def _row(line: str) -> dict[str, Any]:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise DeclarationError("it is not an object")
    scope = found.get("scope") or Scope.LOCAL.name
    if scope not in Scope.__members__:
        raise DeclarationError(f"scope must be one of {', '.join(Scope.__members__)}, not {scope}")
    given = {name: value for name, value in found.items() if name not in _DERIVED} | {"scope": f"SCOPE_{scope}"}
    document = json_format.ParseDict(given, PolicyDocument())
    if not document.topic or not document.HasField("policies"):
        raise DeclarationError(f"it has no {'policies' if document.topic else 'topic'}")
    topic = topic_name(document.topic)
    shown = TopicPolicies.FromString(secrets.wire(split(document.policies)))
    return {"namespace": namespace_of(topic), "topic": topic, "scope": scope, "policies": documents.value_of(shown)}
