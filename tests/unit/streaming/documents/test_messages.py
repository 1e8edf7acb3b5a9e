"""Records are read without their headers if the client's library cannot read these."""

from __future__ import annotations

from typing import Any

from streaming.documents.messages import headers_of


class Message:
    """A message of which one header has a name that is not UTF-8, until its headers are set."""

    given: list[Any] | None = None

    def headers(self) -> list[Any] | None:
        if self.given is None:
            raise SystemError("returned a result with an exception set")
        return self.given

    def set_headers(self, headers: list[Any]) -> None:
        self.given = headers


def test_a_header_name_that_is_no_text_costs_the_headers_and_not_the_record() -> None:
    message: Any = Message()
    assert headers_of(message) == []
    assert message.headers() == []
    message.set_headers([("a", b"1")])
    assert headers_of(message) == [("a", b"1")]
