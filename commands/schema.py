"""Run the command `schema`: print the JSON Schema of a subscription."""

from __future__ import annotations

import json

import typer

from streaming.documents.schema import subscription_schema

app = typer.Typer()


@app.command()
def schema() -> None:
    print(json.dumps(subscription_schema(), indent=2))
