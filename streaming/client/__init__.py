"""The Python API of Sluice: subscribe, read deliveries, look, replay and repair from a program of yours.

    from config import load
    from streaming.client import Client

    with Client(load("sluice.toml")) as client:
        client.subscribe("s1", "alice", {"symbol": ["IBM"]}).wait()

`docs/client.md` shows it at work. The command line is made of it.

For: programs, and the command line. May enter: settings, and what the rooms below offer. Must not know: Spark, the
driver and its state, and the terminal.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streaming.admin.change_acks import ChangeAck, ChangeRefused, Unanswered
from streaming.admin.dead_letters import DeadLetterFilter, DeadLetterPosition, StoredDeadLetter
from streaming.admin.deliveries import Delivery
from streaming.admin.pause import NoSubscription
from streaming.admin.start_position import NotJoined
from streaming.admin.subscription_status import SubscriptionStatus
from streaming.admin.subscription_topic import StoredSubscription
from streaming.client.changes import WrittenChanges
from streaming.client.client import Client
from streaming.client.deliveries import Deliveries, GroupChanged
from streaming.client.starts import Starts
from streaming.codecs import Undecodable
from streaming.documents.verdicts import SubscriptionVerdict
from streaming.errors import JobError

if TYPE_CHECKING:
    from streaming.admin.backtest import Backtest
    from streaming.admin.redrive import RedriveOutcome, RedriveSummary
    from streaming.admin.replay import Replay, ReplaySummary

__all__ = [
    "Client",
    "WrittenChanges",
    "ChangeAck",
    "Deliveries",
    "Delivery",
    "StoredSubscription",
    "SubscriptionStatus",
    "SubscriptionVerdict",
    "StoredDeadLetter",
    "DeadLetterFilter",
    "DeadLetterPosition",
    "RedriveOutcome",
    "RedriveSummary",
    "Replay",
    "ReplaySummary",
    "Starts",
    "Backtest",
    "JobError",
    "ChangeRefused",
    "GroupChanged",
    "NoSubscription",
    "NotJoined",
    "Unanswered",
    "Undecodable",
]

# Where numba is needed: its import takes a second, which who only subscribes should not wait for.
_COMPILED = {
    "Backtest": "backtest",
    "RedriveOutcome": "redrive",
    "RedriveSummary": "redrive",
    "Replay": "replay",
    "ReplaySummary": "replay",
}


def __getattr__(name: str) -> Any:
    if name not in _COMPILED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"streaming.admin.{_COMPILED[name]}"), name)
