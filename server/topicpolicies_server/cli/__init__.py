"""The command line: ``topicpolicies``. Only the commands that run a server import the server's modules.

- ``app``: the application and its global options; ``settings``: the values of those; ``commands``: where each command is
- ``calls``: the commands that call a server; ``declaring``: plan, apply and export; ``version``
- ``doctor``: the command that looks for what is wrong
- ``serving``: the commands that run a server or a guard, and the one that shows their options
- ``showing``: documents, changes and entries for people and for programs
- ``arguments``, ``files``: checks of what is read; ``escaping``: what others have written; ``writing``: output that can't be written
- ``interrupts``, ``exits``: how commands are interrupted, and how they end
"""

from importlib.util import find_spec

if find_spec("typer") is None or find_spec("rich") is None:
    raise ModuleNotFoundError("The command line needs more than the client: install topicpolicies[cli], or topicpolicies[server] to serve.")
