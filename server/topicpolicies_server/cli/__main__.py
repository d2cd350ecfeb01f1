"""``python -m topicpolicies_server.cli`` is ``topicpolicies``."""

from .app import main

main()
