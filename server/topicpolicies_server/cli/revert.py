"""The revert command: a document as it was becomes the document again."""

from __future__ import annotations

from typing import Annotated

import typer

from topicpolicies.masks import paths_between

from ..declared.steps import Step
from .apply import DryRun, Yes, accepted, carry_out, validated
from .calls import calling
from .documents import OneScope
from .moments import parse_moment, read_at
from .settings import ScopeName, Topic, settings


def revert(
    context: typer.Context,
    topic: Topic,
    to: Annotated[str, typer.Option("--to", metavar="TIME|VERSION", help="The moment whose document is wanted, as in get --as-of.")],
    scope: OneScope = ScopeName.LOCAL,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Make the policies of one topic what they were at a moment.

    It lets the server check the change, shows the differences, and asks, if you are at a terminal. The change names only what differs, and
    is made on condition that the document is still as it was read. If there was no document then, the present one is deleted. Secrets stay
    as they are now. The server needs a history that reaches back to the moment.

    \b
    Examples:
      topicpolicies history public/default/orders
      topicpolicies revert public/default/orders --to 15
      topicpolicies revert public/default/orders --to 2h-ago --dry-run
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    moment = parse_moment(to, "--to")
    with calling(chosen) as client:
        then = read_at(client, topic, scope.scope, moment)
        present = client.get(topic, scope=scope.scope)
        mask = tuple(sorted(paths_between(present.policies, then.policies))) if then.HasField("policies") else ()
        there = then.HasField("policies"), present.HasField("policies")
        planned = validated(client, [Step(present, then.policies, mask)] if mask or there == (False, True) else [])
        carry_out(client, chosen, accepted(planned, chosen), "as it was then", yes=yes, dry_run=dry_run)
