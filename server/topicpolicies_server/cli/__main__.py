"""Lets ``python -m topicpolicies_server.cli`` run ``topicpolicies``."""

from .app import main

main()
