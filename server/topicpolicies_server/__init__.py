"""The topic policies sidecar for Apache Pulsar: it changes, follows and audits topic policies."""
