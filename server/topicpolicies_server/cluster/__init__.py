"""Facts about the cluster, from a broker's admin API or from a file, and what they mean for a request before it is sequenced."""
