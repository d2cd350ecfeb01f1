"""Shows results: ``rendering`` for people, ``forms`` for programs, ``events`` of watches and histories; ``notes`` on standard error."""
