"""Ask whether a transactional id may be used, without using it."""

from __future__ import annotations

from kafka import errors

from streaming.errors import Forbidden
from streaming.publishing.connection import requests
from streaming.publishing.connection.answers import Reaction, error_of, reaction_to
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import ProducerEpoch

_NOBODY = ProducerEpoch(-1, -1)
_OF_GROUP: int = errors.GroupAuthorizationFailedError.errno


def refused(client: Client, transactional_id: str, group: str) -> Forbidden | None:
    """The error that a transaction of this name would end in if the user lacks the right to write on the id; else None.

    It asks to add the group to a transaction of a producer that does not exist. The broker checks the right on the id,
    then that on the group, and refuses the producer: nothing changes, and nobody is fenced. Raises JobError.
    """
    request = requests.add_group(transactional_id, _NOBODY, group)
    try:
        _, answers = client.run(client.ask, request, client.attempt())
    except Forbidden as error:  # the coordinator may not even be looked up
        return error
    for answer in answers:
        if answer.code != _OF_GROUP and reaction_to(request.name, answer) is not Reaction.UNSETTLED:
            reason = error_of(request.name, transactional_id, answer)
            if not isinstance(reason, Forbidden):
                raise reason
            return reason
    return None
