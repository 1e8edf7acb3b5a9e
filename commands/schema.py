"""The command `schema`: the JSON Schema of a subscription."""

from __future__ import annotations

import json

import typer

from streaming.documents.schema import subscription_schema

app = typer.Typer()


@app.command()
def schema() -> None:
    """Print the JSON Schema of a subscription, for editors and checks; config/subscription.schema.json is a copy."""
    print(json.dumps(subscription_schema(), indent=2))
