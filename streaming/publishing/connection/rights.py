"""Find out whether the user may use a transactional id, without using it."""

from __future__ import annotations

from kafka import errors

from streaming.errors import Forbidden
from streaming.publishing.connection import requests
from streaming.publishing.connection.answers import Reaction, error_of, reaction_to
from streaming.publishing.connection.client import Client
from streaming.publishing.contract import ProducerEpoch

_NOBODY = ProducerEpoch(-1, -1)
_OF_GROUP: int = errors.GroupAuthorizationFailedError.errno


def rejected(client: Client, transactional_id: str, group: str) -> Forbidden | None:
    """Return the error of a transaction of this name if the user lacks the permission to write on the id; else None.

    The request adds the group to a transaction of a producer that does not exist. The broker checks the permission on
    the id, then the one on the group, and rejects the producer: nothing changes, and no producer is fenced. Raises
    JobError.
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
