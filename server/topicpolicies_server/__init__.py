"""The topic policies sidecar for Apache Pulsar: changes, follows and audits topic policies."""
