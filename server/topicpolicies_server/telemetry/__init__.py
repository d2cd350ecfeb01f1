"""Spans and metrics for a collector, sent by OTLP over HTTP (protobuf).

The SDK of OpenTelemetry is not needed for this, only its definitions: a span costs the event loop a tuple, and a thread does the rest.
"""
