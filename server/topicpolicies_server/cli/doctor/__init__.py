"""The command that finds what is wrong: ``doctor`` is the command, ``sidecar`` and ``brokers`` have the checks, ``checks`` runs them."""
