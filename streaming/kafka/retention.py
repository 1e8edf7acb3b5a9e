"""The time for which the subscriptions topic keeps superseded records: a day.

The topic's setting, the age at which a saved state is too old, and how late an event may be all follow from it.
"""

from __future__ import annotations

DAY_MS = 24 * 3600 * 1000
