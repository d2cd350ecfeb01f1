"""Reading: the heads of a namespace, built from the events of its log, and the watchers that follow their changes."""
