"""The command line: ``topicpolicies``. What concerns the server is imported only by the commands that run one."""

from importlib.util import find_spec

if find_spec("typer") is None or find_spec("rich") is None:
    raise ModuleNotFoundError("The command line needs more than the client: install topicpolicies[cli], or topicpolicies[server] to serve.")
