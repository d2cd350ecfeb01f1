"""Documents: what the policies of a topic are, the events that carry them, and what holds for a topic in the end."""
