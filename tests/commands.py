"""The commands of airpool, for tests that go through all of them."""

from typing import Any

import typer

from airpool import cli


def leaves(command: Any = None, path=()):
    """Every command that does something, with its words."""
    command = command or typer.main.get_command(cli.app)
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names:
        yield path, command
    for name in names:
        yield from leaves(command.get_command(None, name), (*path, name))


def parsed(words):
    """Parses a command line as it is called, and calls nothing."""
    command: Any = typer.main.get_command(cli.app)
    parent = None
    ctx: Any = command.make_context("airpool", list(words))
    while hasattr(command, "list_commands"):
        rest = [*ctx._protected_args, *ctx.args]
        name, command, rest = command.resolve_command(ctx, rest)
        parent, ctx = ctx, command.make_context(name, rest, parent=ctx)
    assert parent is not None
