"""The command line: ``topicpolicies``. What a command needs is imported when it runs, and it ends by raising Typer's exceptions.

- ``app``: the application and its commands; ``globals``: the options that every command has; ``calls``: a client by them
- ``documents``, ``history``, ``watch``, ``server``, ``explain``: commands that call a server
- ``apply``: plan, apply, revert, export; ``broker_client``, with the table ``endpoints``: they by the admin API
- ``fields``: pulsar-admin's flags of each field; ``assignments``: what ``update`` sets; ``verbs``: the commands of pulsar-admin
- ``doctor``: what is wrong; ``serve``, ``demo``: the commands that run a server or a guard, and their options
- ``rendering``: documents, changes and entries for people and for programs
- ``exits``: how commands end
"""

import sys
from importlib.util import find_spec

if find_spec("typer") is None:
    sys.exit("The command line needs more than the client: pip install 'topicpolicies[cli]'; to serve: pip install 'topicpolicies[server]'")
