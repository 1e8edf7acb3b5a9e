"""The Python API of Sluice: subscribe, read deliveries, inspect, replay and redrive from a program.

    from config import load
    from streaming.client import Client

    with Client(load("sluice.toml")) as client:
        client.subscribe("s1", "alice", {"symbol": ["IBM"]}).wait()

`docs/client.md` has examples and the reference. The command line is built on it.

For: programs, and the command line. May enter: settings, and the packages below. Must not know: Spark, the driver and
its state, and the terminal.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streaming.admin.change_acks import ChangeAck, ChangeRejected, Unanswered
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
    "ChangeRejected",
    "GroupChanged",
    "NoSubscription",
    "NotJoined",
    "Unanswered",
    "Undecodable",
]

# These need numba. Importing it takes a second, so a program that only subscribes does not import it.
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
