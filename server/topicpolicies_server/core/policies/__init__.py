"""Documents: the policies of a topic, the events that carry them, and the policies that hold for a topic in the end."""
