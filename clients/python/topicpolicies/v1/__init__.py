"""Version 1 of the API: generated from ``proto/topicpolicies/v1``."""
