"""The command line: ``topicpolicies``. What concerns the server is imported only by the commands that run one.

- ``app``: the application, its global options (``settings``) and its commands
- ``calls``: the commands that call a server; ``declaring``: plan, apply and export
- ``serving``: the commands that run a server or a guard, and the one that shows with which options
- ``showing``: documents, changes and entries for people and for programs
- ``arguments``, ``files``, ``interrupts``, ``writing``, ``exits``: what is read, what is written, and how commands end
"""

from importlib.util import find_spec

if find_spec("typer") is None or find_spec("rich") is None:
    raise ModuleNotFoundError("The command line needs more than the client: install topicpolicies[cli], or topicpolicies[server] to serve.")
