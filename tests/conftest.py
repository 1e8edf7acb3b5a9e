"""How much the property tests try: `quick` with every run of the tests, `long` with `make test-long`."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("quick", deadline=None, max_examples=150)
settings.register_profile("long", deadline=None, max_examples=5_000)
settings.load_profile("quick")
