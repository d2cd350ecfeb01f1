"""The edit command: a document as YAML in the user's editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import typer

from topicpolicies import InvalidArgument, PolicyDocument, TopicPolicies, TopicPoliciesError
from topicpolicies.masks import paths_between

from ..declared.files import parse_policies
from ..declared.rendering import plain, scope_name
from . import forms
from .calls import calling
from .documents import ValidateOnly, options_of_change, show_change
from .globals import Globals, OneScope, Topic, scope_of

_HEAD = """\
# {topic}  {scope}  version {version}
# What is removed here is cleared. Times and sizes may have units (7d, 10G). An empty file changes nothing.
# topicpolicies explain FIELD says what a field takes.
"""


def edit(
    chosen: Globals,
    topic: Topic,
    scope: OneScope = "local",
    dry_run: ValidateOnly = False,
) -> None:
    """Edit the policies of one topic in your editor.

    The editor is that of $VISUAL or $EDITOR. The change is made on condition that nobody has changed the document meanwhile.
    After an error what you have written is kept, in a file that is named.

    \b
    Examples:
      topicpolicies edit persistent://public/default/orders
      EDITOR=nano topicpolicies edit public/default/orders -g
    """  # noqa: D301 - "\b" keeps the lines
    with calling(chosen) as client:
        document = client.get(topic, scope=scope_of(scope))
        handle, name = tempfile.mkstemp(prefix="topicpolicies-", suffix=".yaml")
        os.close(handle)
        file, kept = Path(name), False
        try:
            edited = _edited(document, file)
            if edited is None:
                typer.echo("Nothing was changed.", err=True)
                return
            how = options_of_change(chosen, scope, document.version, validate_only=dry_run)
            result = client.update(document.topic, edited[0], mask=edited[1], **how)
        except TopicPoliciesError:
            kept = True
            chosen.note(f"What you wrote is kept in {file}.")
            raise
        finally:
            if not kept:
                file.unlink()
    show_change(chosen, topic, result)


def _edited(document: PolicyDocument, file: Path) -> tuple[TopicPolicies, list[str]] | None:
    """Returns the policies as the user has edited them, and the mask of what differs; None: nothing does.

    At a terminal a text that is wrong is edited again, with what is wrong on top.
    """
    head = _HEAD.format(topic=document.topic, scope=scope_name(document), version=document.version)
    policies = plain(document.policies, units=True)
    before = text = head + (forms.yaml(policies, begin=False) + "\n" if policies else "")
    while True:
        file.write_text(text, encoding="utf-8")
        _run_editor(file)
        last, text = text, file.read_text(encoding="utf-8")
        if text == before or not text.strip():
            return None
        try:
            values, _ = parse_policies(text, "edit")
        except InvalidArgument as error:
            if text == last or not sys.stdin.isatty():
                raise
            problems = [f"# {each.field}: {each.description}" for each in error.violations]
            text = "\n".join([*problems, *(line for line in text.splitlines() if not line.startswith("# edit:"))]) + "\n"
            continue
        mask = sorted(paths_between(document.policies, values))
        return (values, mask) if mask else None


def _run_editor(file: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    if ended := subprocess.run([*shlex.split(editor), str(file)], check=False).returncode:  # noqa: S603 - the user's own
        raise OSError(0, "nothing was changed.", f"The editor {editor} ended with {ended}")
