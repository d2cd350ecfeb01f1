"""What is known about the cluster: from a broker's admin API, or from a file; and what follows for a request before it is sequenced."""
