"""Hold the connections of a process, one for each broker that it needs, and cache leaders and coordinators.

Only this module uses kafka-python's connections. They run as coroutines on an event loop of their own. A slot passes
a coroutine to `run`, and the loop runs until the coroutine ends: there is no thread.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from kafka import errors
from kafka.future import Future
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.frame import KafkaBytes
from kafka.protocol.metadata import ApiVersionsRequest, CoordinatorType, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import ProduceRequest

from streaming import secret_files
from streaming.errors import BrokerUnreachable, JobError, Unauthenticated
from streaming.publishing.connection.answers import BrokerError, Reaction, error_of, reaction_to, worst
from streaming.publishing.connection.options import Options
from streaming.publishing.connection.requests import CoordinatorRequest

TIMEOUT_S = 60.0  # for all attempts at one thing
# After this a topic that brokers do not know does not exist. They hear of a new one within a fraction of it; and if one
# takes longer, nothing is lost: the transaction is aborted, and the driver looks for the topic.
GONE_S = 2.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.05
THROTTLED_S = 30.0  # the longest throttle: by default a broker's quotas take at most 11 s at a time
CLOSING_S = 1.0  # to wait for connections in the making
LARGE_BYTES = 1 << 16  # of an answer, and of what is read to see how large the answer is
MOST_IN_FLIGHT = 1_000  # requests of a connection; the broker takes one after the other

_Result = TypeVar("_Result")

_PASSING = (
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    errors.KafkaTimeoutError,
    errors.UnknownBrokerIdError,
    errors.Cancelled,
    errors.KafkaProtocolError,
    OSError,
)
_NOT_KNOWN = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
    ssl.SSLCertVerificationError,
)
# Of OpenSSL's names of the alerts about who the client is, and about what both could agree on.
_REFUSALS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "HANDSHAKE_FAILURE", "PROTOCOL_VERSION", "SECURITY")


class ConnectionLost(Exception):
    """The connection could not be opened, was lost, or its broker did not answer in time."""


@dataclass
class Attempt:
    """The deadline of an operation with its retries, and how often each error occurred."""

    until: float  # monotonic s
    errors: Counter[str] = field(default_factory=Counter)  # "Produce NOT_LEADER_FOR_PARTITION" -> how many requests
    last: str = "no answer"
    pause_s: float = SHORTEST_PAUSE_S

    def note(self, request: str, name: str, text: str = "") -> None:
        self.errors[f"{request} {name}"] += 1
        self.last = f"{request}: {text or name}"

    def rejected(self, request: str, answers: Iterable[BrokerError]) -> None:
        """Note the errors in the answer to one request, each once, however many partitions have it."""
        for answer in {answer.name: answer for answer in answers}.values():
            self.note(request, answer.name, str(answer))


class TopicMetadata(NamedTuple):
    """The metadata of a topic."""

    leaders: Sequence[int]  # the node of each partition; -1 while there is none
    error: BrokerError | None
    asked_at: float  # monotonic s


class _Manager(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python has no types
    """Read what a broker sent before it closed a connection: it reports a wrong password and closes at once.

    An answer that cannot be read closes the connection; otherwise requests on it would wait forever. Each login reads
    the files of the user and the password anew."""

    connecting = 0  # connections in the making
    options: Mapping[str, str] = MappingProxyType({})  # of librdkafka

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        read = conn.data_received

        def data_received(data: bytes) -> None:
            try:
                read(data)
            except errors.KafkaProtocolError:
                raise
            except Exception as error:  # a length beyond the end, bytes that are no UTF-8
                raise errors.KafkaProtocolError(f"a response cannot be decoded: {error!r}") from None

        log_in = conn._sasl_authenticate

        async def log_in_anew(timeout_at: float | None = None) -> None:
            if (login := secret_files.login(self.options)) is not None:
                conn.config["sasl_plain_username"], conn.config["sasl_plain_password"] = login
            await log_in(timeout_at)

        conn.data_received, conn._sasl_authenticate = data_received, log_in_anew
        self.connecting += 1
        try:
            await super()._connect(node, conn, **options)
        finally:
            self.connecting -= 1

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        config = self.config
        address = node.host, node.port, config["socket_options"]
        sock = await create_connection(self._net, *address, proxy_url=config["proxy_url"], timeout_at=timeout_at)
        if self.ssl_enabled:
            secure = {name: value for name, value in config.items() if name.startswith("ssl_")}
            transport: Any = _Tls(self._net, sock, host=node.host, **secure)
            transport.until = timeout_at
        else:
            transport = KafkaTCPTransport(self._net, sock, host=node.host)
        try:
            await transport.handshake()
        except Exception as error:
            transport.close()
            raise errors.KafkaConnectionError(f"the handshake failed: {error}") from error
        transport._sock_recv = lambda: _received(transport)
        transport._write_to_sock = partial(_written, transport)
        return transport


class _Tls(KafkaSSLTransport):  # type: ignore[misc]  # kafka-python has no types
    """TLS whose handshake has a deadline. kafka-python would wait forever for a broker that accepts and is silent."""

    until: float | None = None  # monotonic s

    async def handshake(self) -> None:
        while True:
            try:
                self._sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, self.until)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, self.until)


class _Loop(NetworkSelector):  # type: ignore[misc]  # kafka-python has no types
    """An event loop that only its own thread uses, so that no coroutine has to wake it, as kafka-python does."""

    def wakeup(self) -> None: ...


class _LargeFrame(KafkaBytes):  # type: ignore[misc]  # kafka-python has no types
    """A large answer, decoded in place; kafka-python would copy it twice first."""

    _idx: int  # where it is read or written next

    def read(self, nbytes: int | None = None) -> bytes | memoryview:
        if nbytes is not None:
            some: bytes = super().read(nbytes)
            return some
        begin, self._idx = self._idx, len(self)
        return memoryview(self)[begin:]


def _received(transport: Any) -> tuple[bytes, Exception | None]:
    """Read from a socket; the bytes of a large answer go straight into its frame, and are not returned.

    kafka-python reads 4 kB at a time and copies it three times, most of the cost of a large answer.
    """
    pieces: list[bytes] = []
    size = 0
    error: Exception | None = None
    try:
        open = _put_into_answer(transport)
        while open and (piece := transport._sock.recv(LARGE_BYTES)):
            pieces.append(piece)
            size += len(piece)
            if size >= LARGE_BYTES and not (isinstance(transport._sock, ssl.SSLSocket) and transport._sock.pending()):
                break  # the rest is read once kafka-python has the request that it belongs to
        else:
            error = errors.KafkaConnectionError("socket disconnected")
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        pass
    except Exception as reason:
        error = errors.KafkaConnectionError(reason)
    return b"".join(pieces), None if pieces else error  # the next call meets the error again


async def _written(transport: Any) -> None:
    """Write what waits to be written, and only then wait, if the socket takes no more.

    kafka-python waits first until the socket can be written to, which costs two system calls and a turn of the loop.
    """
    try:
        while True:
            _, error = transport._sock_send()
            if error is not None:
                transport.abort(error=error)
                return
            transport.last_write = time.monotonic()
            if not transport._write_buffer:
                break
            await transport._net.wait_write(transport._sock)
    finally:
        transport._writing = False
    if transport._closed:
        transport._close()
    elif not transport._write:
        with suppress(OSError):
            transport._sock.shutdown(socket.SHUT_WR)


def _put_into_answer(transport: Any) -> bool:
    """Read from the socket into a large answer that has begun, up to its last byte, on which kafka-python decodes it.

    Returns whether the socket is still open.
    """
    parser = transport._protocol.parser
    if not parser._receiving or len(parser._rbuffer) < LARGE_BYTES:
        return True
    frame = parser._rbuffer
    frame.__class__ = _LargeFrame
    with memoryview(frame) as view:
        while frame._idx < len(frame) - 1:
            n = transport._sock.recv_into(view[frame._idx : len(frame) - 1])
            if not n:
                return False
            frame._idx += n
    return True


class Client:
    """The client of a process, for all its slots, one after the other.

    Create and close it in the process that uses it, never before a fork.

    All methods raise BrokerUnreachable, Unauthenticated, Forbidden, or another JobError.
    """

    def __init__(self, bootstrap_servers: str, options: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self.options = Options.of(options)
        self.timeout_s = timeout_s
        self._address = bootstrap_servers
        self._process = os.getpid()
        # It logs each lost connection as an error, and at level debug all bytes. We raise what matters.
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
        config = {
            **self.options.connection,
            "bootstrap_servers": bootstrap_servers,
            "max_in_flight_requests_per_connection": MOST_IN_FLIGHT,
            "slow_task_threshold_secs": 0,  # records are encoded within
        }
        self._net = _Loop(**config)
        self._manager = _Manager(self._net, **config)
        self._manager.options = options
        self._topics: dict[str, TopicMetadata] = {}
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._transaction_version: int | None = None

    def run(self, work: Callable[..., Coroutine[Any, Any, _Result]], *arguments: Any) -> _Result:
        """Run a coroutine to its end."""
        if os.getpid() != self._process:
            raise RuntimeError("a Client cannot be used after a fork")
        result: _Result = self._net.run(work, *arguments)
        return result

    def close(self) -> None:
        """Close all connections. One that is being opened is closed once it is open, or its socket would leak."""
        if self._manager.closed:
            return
        self._manager.close()
        self.run(self._connected)
        self._net.close()

    def partitions(self, topics: Iterable[str], least: Mapping[str, int] = MappingProxyType({})) -> dict[str, int]:
        """Return the number of partitions of each topic, without topics that are missing or that the user may not see.

        Metadata is cached for metadata.max.age.ms, but never that a topic is missing or has fewer partitions than
        in `least`.
        """
        return self.run(self._partitions, list(topics), least)

    def transaction_version(self) -> int:
        """Return the version of the cluster's transactions: 2 where a write adds its partition to the transaction."""
        return self.run(self.transactions)

    def forget(self, topics: Iterable[str]) -> None:
        """Discard the metadata of these topics: it is out of date."""
        for topic in topics:
            self._topics.pop(topic, None)

    # What follows runs on the loop.

    def attempt(self) -> Attempt:
        return Attempt(time.monotonic() + self.timeout_s)

    def start(self, work: Callable[..., Coroutine[Any, Any, _Result]], *arguments: Any) -> Any:
        """Start a coroutine concurrently; awaiting the returned future gives its result."""
        return self._net.call_soon_with_future(work, *arguments)

    async def written(self) -> None:
        """Wait until the system has taken what was sent."""
        for _ in range(3):  # for what was started to send
            await self._net.sleep(0)
        while any(c.transport is not None and c.transport._write_buffer for c in self._manager._conns.values()):
            await self._net.sleep(0.001)

    async def happened(self, event: Future, until: float) -> None:
        """Wait for an event, at most until a monotonic time."""
        with suppress(errors.KafkaTimeoutError):
            await self._manager.wait_for(event, max(0.0, 1000 * (until - time.monotonic())))

    def disconnect(self, node: int) -> None:
        """Close the connection to a broker at once. Answers that have not arrived count as lost."""
        if (connection := self._manager._conns.get(node)) is not None:
            connection.close(errors.KafkaConnectionError("closed here"))

    async def _connected(self) -> None:
        until = time.monotonic() + CLOSING_S
        await self._net.sleep(0)  # for those that are to begin
        while self._manager.connecting and time.monotonic() < until:
            await self._net.sleep(0.001)

    async def pause(self, attempt: Attempt, reaction: Reaction = Reaction.REFRESH) -> None:
        """Wait before the next try. Raises BrokerUnreachable if the time is over."""
        pause_s = attempt.pause_s if reaction is Reaction.AGAIN else LONGEST_PAUSE_S
        attempt.pause_s = min(2 * attempt.pause_s, LONGEST_PAUSE_S)
        if time.monotonic() + pause_s > attempt.until:
            raise BrokerUnreachable(
                f"requests to the brokers at {self._address} failed for {self.timeout_s:.0f} s; last error: "
                f"{attempt.last}"
            )
        await self._net.sleep(pause_s)

    async def transactions(self) -> int:
        """As `transaction_version`."""
        attempt = self.attempt()
        while self._transaction_version is None:
            for node in await self._nodes(attempt):
                request = ApiVersionsRequest(
                    min_version=3, max_version=3, client_software_name="sluice", client_software_version="0"
                )
                try:
                    response = await self.send(node, request, attempt)
                except ConnectionLost:
                    continue
                if response.error_code:
                    answer = BrokerError("", response.error_code)
                    attempt.note("ApiVersions", answer.name, str(answer))
                    continue
                levels = {feature.name: feature.max_version_level for feature in response.finalized_features or ()}
                self._transaction_version = 2 if levels.get("transaction.version", 0) >= 2 else 1
                break
            else:
                await self.pause(attempt)
        return self._transaction_version

    async def leaders(
        self, topics: Iterable[str], attempt: Attempt, *, refresh: bool = False
    ) -> Mapping[str, TopicMetadata]:
        """The metadata of the topics, from memory where it is fresh enough; with `refresh`, from a broker."""
        names = set(topics)
        oldest = time.monotonic() - self.options.metadata_max_age_s
        known = {} if refresh else {n: t for n in names if (t := self._topics.get(n)) and t.asked_at >= oldest}
        if unknown := sorted(names - known.keys()):
            response = await self._metadata(unknown, attempt)
            now = time.monotonic()
            for topic in response.topics:
                nodes = {p.partition_index: p.leader_id for p in topic.partitions or ()}
                leaders = [nodes[number] for number in sorted(nodes)]
                error = BrokerError(topic.name, topic.error_code) if topic.error_code else None
                known[topic.name] = TopicMetadata(leaders, error, now)
                if error is None:
                    self._topics[topic.name] = known[topic.name]
                else:  # do not keep that: the topic may be made at any time
                    self._topics.pop(topic.name, None)
        return known

    async def ask(self, request: CoordinatorRequest, attempt: Attempt) -> tuple[Any, list[BrokerError]]:
        """Repeat a request until the coordinator's answer is final: the response, and the answers that end the work."""
        missing_since = None
        while True:
            at = request.coordinator, request.key
            try:
                node = await self._coordinator(*at, attempt)
                response = await self.send(node, request.make(), attempt, request.name)
            except ConnectionLost:
                self._coordinators.pop(at, None)
                await self.pause(attempt)
                continue
            answers = [a for a in request.answers(response) if reaction_to(request.name, a) is not Reaction.DONE]
            reaction = worst(request.name, answers)
            attempt.rejected(request.name, answers)
            if reaction is Reaction.GONE:
                missing_since = missing_since or time.monotonic()
                if time.monotonic() - missing_since < GONE_S:
                    reaction = Reaction.REFRESH
            if reaction is Reaction.DONE or reaction >= Reaction.GONE:
                return response, [a for a in answers if reaction_to(request.name, a) >= Reaction.GONE]
            if reaction is Reaction.LOOK_UP:
                self._coordinators.pop(at, None)
            await self.pause(attempt, reaction)

    async def produce_version(self, node: int, newest: int, attempt: Attempt) -> int:
        """The version of Produce requests for this broker. Raises ConnectionLost."""
        connection = await self._connection(node, attempt, "Produce")
        try:
            return int(connection.broker_version_data.api_version(ProduceRequest, min_version=9, max_version=newest))
        except errors.IncompatibleBrokerVersion as error:
            raise self._translated(error, attempt, "Produce") from None

    async def send(self, node: int | str, request: Any, attempt: Attempt, name: str = "") -> Any:
        """The response of a broker. Raises ConnectionLost, and at once what no other try would mend."""
        name = name or type(request).__name__.removesuffix("Request")
        connection = await self._connection(node, attempt, name)
        await self._unpaused(connection, attempt)
        left_ms = 1000 * (attempt.until - time.monotonic())
        timeout_ms = max(1.0, min(left_ms, self.options.connection["request_timeout_ms"]))
        try:
            return await connection.send_request(request, request_timeout_ms=timeout_ms)
        except (errors.KafkaError, OSError) as error:
            raise self._translated(error, attempt, name) from None

    async def _unpaused(self, connection: Any, attempt: Attempt) -> None:
        """Wait while a connection takes no requests, because a quota of the broker throttles it. This time does not
        count as a failure; beyond any quota's, the connection is closed."""
        began = time.monotonic()
        while connection.paused and not connection.closed:
            if time.monotonic() - began > THROTTLED_S:
                connection.close(errors.KafkaConnectionError(f"the broker throttled for more than {THROTTLED_S:.0f} s"))
                break
            await self._net.sleep(LONGEST_PAUSE_S)
        attempt.until += time.monotonic() - began

    async def _connection(self, node: int | str, attempt: Attempt, name: str) -> Any:
        try:
            connection = self._manager.get_connection(node, refresh_metadata_on_err=False)
            return await connection
        except JobError:
            raise
        except Exception as error:  # whatever kafka-python makes of an address or of versions that make no sense
            raise self._translated(error, attempt, name) from None

    def _translated(self, error: Exception, attempt: Attempt, name: str) -> Exception:
        # kafka-python wraps the errors of TLS in errors of its own.
        for cause in (error, error.__context__, *error.args):
            if isinstance(cause, _NOT_KNOWN) or (isinstance(cause, ssl.SSLError) and _refuses(str(cause))):
                return Unauthenticated(
                    f"TLS with the broker at {self._address} failed (settings in kafka.client): {cause}"
                )
        if isinstance(error, errors.IncompatibleBrokerVersion):
            return JobError(f"the broker at {self._address} is older than Kafka 3.0: {error}")
        if isinstance(error, errors.KafkaError) and not isinstance(error, _PASSING):
            return JobError(f"the broker at {self._address} cannot be asked ({name}): {error}")
        reason = str(error) if isinstance(error, errors.KafkaError | OSError) else repr(error)
        attempt.note(name, "connection lost", reason)
        return ConnectionLost(reason)

    async def _partitions(self, topics: Sequence[str], least: Mapping[str, int]) -> dict[str, int]:
        attempt = self.attempt()
        known = dict(await self.leaders(topics, attempt))
        if few := [name for name, topic in known.items() if 0 < len(topic.leaders) < least.get(name, 0)]:
            known |= await self.leaders(few, attempt, refresh=True)
        return {name: len(topic.leaders) for name, topic in known.items() if topic.error is None}

    async def _coordinator(self, kind: CoordinatorType, key: str, attempt: Attempt) -> int:
        while (kind, key) not in self._coordinators:
            found = await self._found(kind, key, attempt)
            if not found.error_code:
                if self._manager.cluster.broker_metadata(found.node_id) is None:
                    await self._metadata([], attempt)
                self._coordinators[kind, key] = found.node_id
                break
            answer = BrokerError("", found.error_code, found.error_message)
            attempt.note("FindCoordinator", answer.name, str(answer))
            if reaction_to("FindCoordinator", answer) > Reaction.REFRESH:
                raise error_of("FindCoordinator", key, answer)
            await self.pause(attempt)
        return self._coordinators[kind, key]

    async def _found(self, kind: CoordinatorType, key: str, attempt: Attempt) -> Any:
        """Return the first answer of a broker about a coordinator."""
        while True:
            for node in await self._nodes(attempt):
                request = FindCoordinatorRequest(
                    min_version=4, max_version=4, key_type=kind.value, coordinator_keys=[key]
                )
                try:
                    response = await self.send(node, request, attempt)
                except ConnectionLost:
                    continue
                for found in response.coordinators or ():
                    if found.key == key:
                        return found
                attempt.note("FindCoordinator", "incomplete answer", f"the answer lacks {key}")
            await self.pause(attempt)
            await self._metadata([], attempt)  # perhaps these are not the brokers any more

    async def _nodes(self, attempt: Attempt) -> list[int | str]:
        """The brokers, those that answer at once first; fetches the list if there is none yet."""
        if not self._manager.cluster.brokers():
            await self._metadata([], attempt)
        nodes = [broker.node_id for broker in self._manager.cluster.brokers()]

        def waits(node: int | str) -> tuple[bool, int]:
            connection = self._manager._conns.get(node)
            if connection is None or not connection.connected:
                return True, 0
            return False, len(connection.in_flight_requests)  # a long poll may be among them

        return sorted(nodes, key=waits)

    async def _metadata(self, topics: Sequence[str], attempt: Attempt) -> Any:
        """Return the metadata of these topics and all brokers. If no broker answers, try the first addresses again."""
        cluster = self._manager.cluster
        while True:
            known = await self._nodes(attempt) if cluster.brokers() else []
            for node in (*known, *(broker.node_id for broker in cluster.bootstrap_brokers())):
                request = MetadataRequest(
                    min_version=4,
                    topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
                    allow_auto_topic_creation=False,
                )
                try:
                    response = await self.send(node, request, attempt)
                except ConnectionLost:
                    continue
                if missing := _missing(response, topics):
                    attempt.note("Metadata", "incomplete answer", f"the answer lacks {missing}")
                    continue
                cluster.update_metadata(response)
                if cluster.is_bootstrap(node):
                    self._manager.close(node)  # the broker has a number now, and gets another connection by it
                return response
            await self.pause(attempt)


def _refuses(alert: str) -> bool:
    """Whether an error of TLS is an alert by which the broker refuses this client; others may pass."""
    return "ALERT" in alert and any(word in alert for word in _REFUSALS)


def _missing(metadata: Any, topics: Sequence[str]) -> str | None:
    """Name something that was requested and that the response lacks; None if it is complete."""
    if not metadata.brokers:
        return "brokers"
    if metadata.topics is None:
        return "topics"
    told = {topic.name: topic for topic in metadata.topics}
    for name in topics:
        if name not in told:
            return f"the topic {name}"
    for name, topic in told.items():
        numbers = sorted(partition.partition_index for partition in topic.partitions or ())
        if not topic.error_code and (not numbers or numbers != list(range(len(numbers)))):
            return f"partitions of {name}"
    return None
