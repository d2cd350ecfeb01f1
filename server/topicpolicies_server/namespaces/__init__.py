"""Namespaces: the life of each, and the only place that awaits core and log."""
