"""``python -m topicpolicies_server``: the same as the command ``topicpolicies``."""

from .entry import main

if __name__ == "__main__":
    main()
