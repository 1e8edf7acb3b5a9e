"""A client of brokers whose requests and answers get lost, or are answered with errors, as a test asks for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from kafka import errors

from streaming.publishing.connection.client import Attempt, Client, ConnectionLost
from tests.support.patience import PATIENCE_S


class TroubledClient(Client):
    """Requests are named as Kafka names them: Produce, EndTxn, ..."""

    def __init__(self, bootstrap_servers: str, options: dict[str, str] | None = None) -> None:
        super().__init__(bootstrap_servers, options or {}, PATIENCE_S)
        self.sent: Counter[str] = Counter()
        self.largest_body = 0  # bytes of a Produce request
        self.lose_requests: Counter[str] = Counter()  # the next so many do not reach the broker
        self.lose_answers: Counter[str] = Counter()  # the broker does what the next so many say, and nobody hears of it
        self.answer_with: dict[str, list[int]] = defaultdict(list)  # codes that replace those of the next good answers
        self.before: dict[str, Callable[[], object]] = {}  # is done once, before the next request of the name

    async def send(self, node: int | str, request: Any, attempt: Attempt, name: str = "") -> Any:
        name = name or type(request).__name__.removesuffix("Request")
        if name in self.before:
            self.before.pop(name)()
        self.sent[name] += 1
        self.largest_body = max(self.largest_body, len(getattr(request, "body", b"")))
        if self.lose_requests[name] > 0:
            self.lose_requests[name] -= 1
            raise self._lost(node, attempt, name)
        response = await super().send(node, request, attempt, name)
        if self.lose_answers[name] > 0:
            self.lose_answers[name] -= 1
            raise self._lost(node, attempt, name)
        if self.answer_with[name] and _replace_codes(response, self.answer_with[name][0]):
            self.answer_with[name].pop(0)
        return response

    def _lost(self, node: int | str, attempt: Attempt, name: str) -> ConnectionLost:
        """The connection is really lost, and with it all that was on its way."""
        if (connection := self._manager._conns.get(node)) is not None:
            connection.close(errors.KafkaConnectionError("cut by the test"))
        attempt.note(name, "connection lost")
        return ConnectionLost("cut by the test")


def _replace_codes(response: Any, code: int) -> bool:
    """Put an error code into a response without errors; return whether it had none."""
    answers = [response, *getattr(response, "coordinators", ())]
    for topic in (*getattr(response, "responses", ()), *getattr(response, "topics", ())):
        answers += getattr(topic, "partition_responses", None) or topic.partitions
    answers = [answer for answer in answers if hasattr(answer, "error_code")]
    if any(answer.error_code for answer in answers):
        return False
    for answer in answers:
        answer.error_code = code
    return True
