"""The Python API of Sluice: subscribe, read deliveries, look, replay and repair from a program of yours.

    from config import load
    from streaming.client import Client

    with Client(load("sluice.toml")) as client:
        client.subscribe("s1", "alice", {"symbol": ["IBM"]}).wait()

`docs/client.md` shows it at work. The command line is made of it.

For: programs, and the command line. May enter: settings, and what the rooms below offer. Must not know: Spark, the
driver and its state, and the terminal.
"""

from streaming.admin.change_acks import ChangeAck, ChangeRefused, Unanswered
from streaming.admin.deliveries import Delivery
from streaming.admin.pause import NoSubscription
from streaming.admin.subscription_status import SubscriptionStatus
from streaming.admin.subscription_topic import StoredSubscription
from streaming.client.changes import WrittenChanges
from streaming.client.client import Client
from streaming.client.deliveries import Deliveries, GroupChanged
from streaming.errors import JobError

__all__ = [
    "Client",
    "WrittenChanges",
    "ChangeAck",
    "Deliveries",
    "Delivery",
    "StoredSubscription",
    "SubscriptionStatus",
    "JobError",
    "ChangeRefused",
    "GroupChanged",
    "NoSubscription",
    "Unanswered",
]
