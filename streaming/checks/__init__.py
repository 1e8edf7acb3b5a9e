"""The checks of `doctor`: each reports a finding and its remedy, and changes nothing.

For: `doctor`. May enter: the settings, the machine, the cluster with its topics and permissions. Must not know: a
running job and its state.
"""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, FAILURE, SKIPPED = "ok", "warning", "failure", "skipped"


@dataclass(frozen=True)
class Finding:
    """The result of one check; `skipped` if it could not be made, with the reason in `text`."""

    what: str
    state: str
    text: str
    remedy: str = ""

    def as_data(self) -> dict[str, str]:
        return {"check": self.what, "state": self.state, "found": self.text, "remedy": self.remedy}
