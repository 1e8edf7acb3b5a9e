"""Would the job start here and go on? What each check found, and how to mend it. No check changes anything."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, FAILURE, SKIPPED = "ok", "warning", "failure", "skipped"


@dataclass(frozen=True)
class Finding:
    """Of one check. Skipped is what could not be asked, for the reason that the text gives."""

    what: str
    state: str
    text: str
    mend: str = ""

    def as_data(self) -> dict[str, str]:
        return {"check": self.what, "state": self.state, "found": self.text, "mend": self.mend}
