"""Spans and metrics for a collector, by OTLP over HTTP (protobuf): what they are, how they are written, and who sends them.

The SDK of OpenTelemetry is not needed for that, only its definitions: a span costs a tuple in the event loop, all else a thread does.
"""
