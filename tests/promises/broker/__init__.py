"""The sidecar and a broker's own admin API: every policy both ways, the same rules, the same effective values, obedience."""
