"""The kinds of faults. Each is injected into the running system and returns when it is over: the seconds for which it
held the system down."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from random import Random

from rig.job import JobProcess
from rig.processes import Process, ProcessTree, below, ended, kill, of_pid
from rig.usage import taken
from streaming.errors import JobError
from streaming.publishing.connection.client import Client
from streaming.publishing.fencing import slot_name
from streaming.publishing.slot import Slot
from tests.faults import interrupted
from tests.faults.checking.check import Gone
from tests.faults.clock.clocks import ROLES
from tests.faults.load import rubbish
from tests.faults.proxy import Proxy
from tests.faults.system import TRANSACTION_TIMEOUT_S, System

ENDS_WITHIN_S = STARTS_WITHIN_S = TAKES_OVER_WITHIN_S = 240.0
SETTLED_S = 0.5  # without a commit, no answer to one is on its way any more
RUBBISH = 200  # records, to each topic
EARLY_S = 2.0
TOPICS = 10  # that are deleted at once
CROWD = 1_000  # subscribers
SPOILED = 3  # files
ALGORITHMS = ("scan", "counting", "tiles", "auto")
NO_QUOTA, AMPLE_QUOTA = "0", "1000000"  # deliveries/s
ENDS_HANGING_WITHIN_S = 240.0
LOOKS_S = 1.0  # for the worker that works most
JUMP_S = (3_600.0, 43_200.0)  # of a clock
PROXIED = ("slow", "drop", "blackhole", "lose", "double", "reorder")
DISTURBED_S = 10.0
LOST, DOUBLED = 0.05, 0.5  # of all requests
REORDERED_S = 0.2
BROKER_PAUSE_S = (3.0, 38.0)  # the controller misses a broker after 9 s
# Of records. In microseconds the first, the fourth and the fifth are beyond 64 bits; -1 is how Kafka says "none"; then
# the first millisecond of 10000, and the last before the Gregorian calendar.
TIMESTAMPS_MS = (-9_223_372_036_854_776, -1, 1, 2**62, -(2**62), 253_402_300_800_000, -12_219_292_800_001)
Kind = Callable[[System, Random], float]


def driver(system: System, r: Random) -> float:
    """kill -9 of the driver's Python, or of the one that stands by; its JVM must end too."""
    tree = _running(system)
    victim = r.choice(tree.drivers)
    jvms = [jvm for jvm in tree.jvms if jvm.parent == victim.pid]
    kill([victim])
    if not ended(jvms, ENDS_WITHIN_S):
        raise JobError(
            f"the JVM was there {ENDS_WITHIN_S:.0f} s after its driver was killed:\n{system.job.last_lines()}"
        )
    return 0.0


def jvm(system: System, r: Random) -> float:
    """kill -9 of the driver's JVM."""
    kill(_running(system).jvms)
    return 0.0


def job(system: System, r: Random) -> float:
    """kill -9 of the driver and of all that it started."""
    kill(_running(system).jobs)
    return 0.0


def fork_server(system: System, r: Random) -> float:
    """kill -9 of the job, and of the process from which the next one would be forked."""
    system.job.wait_for("prepared", lambda: bool(_running(system).fork_servers), STARTS_WITHIN_S)
    tree = _running(system)
    kill([*tree.fork_servers, *tree.jobs])
    return 0.0


def worker(system: System, r: Random) -> float:
    """kill -9 of one of Spark's Python workers."""
    kill([r.choice(_running(system).workers)])
    return 0.0


def hang(system: System, r: Random) -> float:
    """SIGSTOP the busiest Python worker of the job that runs, and wait until its parent has killed it. An idle one
    would hold nothing up."""
    tree = _running(system)
    of_job = {process.handle for process in below(system.job.lines("job_started")[-1]["pid"])}
    hanging = _busiest([worker for worker in tree.workers if worker.handle in of_job] or tree.workers)
    hanging.send(signal.SIGSTOP)
    try:
        system.job.wait_for("rid of a worker that hangs", lambda: not hanging.alive(), ENDS_HANGING_WITHIN_S)
    finally:
        hanging.send(signal.SIGCONT)
    return 0.0


def daemon(system: System, r: Random) -> float:
    """kill -9 of the process that forks those, with which they end."""
    kill([r.choice(_running(system).daemons)])
    return 0.0


def compactor(system: System, r: Random) -> float:
    """kill -9 of a process that only compacts; where there is none, of one that only loads the topic of the
    subscriptions, at a start without a checkpoint. A short topic is loaded without one."""
    pool = _running(system).pool
    if not pool:
        starts = len(system.job.lines("job_started"))
        checkpoint_between(system, r)
        system.job.wait_for(
            "loading", lambda: bool(system.tree().pool or system.job.lines("job_started")[starts:]), STARTS_WITHIN_S
        )
        pool = system.tree().pool
    kill([r.choice(pool)] if pool else [])
    return 0.0


def early(system: System, r: Random) -> float:
    """kill -9 of the job, and then of its JVM, its driver and its JVM again in the first seconds of a start."""
    began = time.monotonic()
    before = _running(system).jobs
    kill(before)
    for of_jvm in (True, False, True):
        known = {p.handle for p in before}
        victims: list[Process] = []
        while not victims:
            system.job.check()
            if time.monotonic() - began > STARTS_WITHIN_S:
                raise JobError(f"the job has not started again:\n{system.job.last_lines()}")
            tree = system.tree()
            victims = [p for p in (tree.jvms if of_jvm else tree.drivers) if p.handle not in known]
            time.sleep(0.02)
        time.sleep(r.uniform(0.0, EARLY_S))
        before = system.tree().jobs
        for victim in victims:
            now = of_pid(victim.pid)  # what had just been forked may be another program by now
            if now is not None and now.handle == victim.handle:
                now.send(signal.SIGKILL)
    return time.monotonic() - began


def executor(system: System, r: Random) -> float:
    """kill -9 of an executor of the cluster."""
    assert system.spark is not None
    kill([r.choice([p for p in system.spark.executors() if "CoarseGrainedExecutorBackend" in p.command])])
    return 0.0


def broker(system: System, r: Random) -> float:
    """kill -9 of a broker, which comes back with what is on its disk."""
    began = time.monotonic()
    victim = r.choice(system.brokers)
    victim.kill()
    time.sleep(r.uniform(0.0, 8.0))
    victim.restart()
    return time.monotonic() - began


def broker_disk(system: System, r: Random) -> float:
    """The broker's disk is full. It ends by itself, or is killed then, and comes back once there is room."""
    assert system.log_disk is not None
    [victim] = system.brokers
    began = time.monotonic()
    system.log_disk.fill()
    try:
        until = began + r.uniform(3.0, 6.0)
        while victim.running() and time.monotonic() < until:
            time.sleep(0.05)
        victim.kill()
    finally:
        system.log_disk.free()
    victim.restart()
    return time.monotonic() - began


def broker_pause(system: System, r: Random) -> float:
    """A broker stands still: sometimes so long that its controller takes it for dead, and transactions time out."""
    victim = of_pid(r.choice(system.brokers).pid)
    assert victim is not None
    return _stopped([victim], lambda: time.sleep(r.uniform(*BROKER_PAUSE_S)))


def pause(system: System, r: Random) -> float:
    """The driver and its JVM stand still for longer than a transaction may last."""
    tree = _running(system)
    return _stopped([*tree.drivers, *tree.jvms], lambda: time.sleep(1.5 * TRANSACTION_TIMEOUT_S))


def freeze(system: System, r: Random) -> float:
    """Suspend a process of the job for longer than a transaction may last: the driver, its JVM, the daemon of the
    workers, or a compaction."""
    tree = _running(system)
    frozen = r.choice([*tree.drivers, *tree.jvms, *tree.daemons, *tree.pool])
    return _stopped([frozen], lambda: time.sleep(1.5 * TRANSACTION_TIMEOUT_S))


def straggler(system: System, r: Random) -> float:
    """A Python worker is suspended for longer than a transaction may last, and then continues with that transaction.
    Its parent, which would kill it, is suspended too."""
    worker = r.choice(_running(system).workers)
    parent = of_pid(worker.parent)
    assert parent is not None
    return _stopped([worker, parent], lambda: time.sleep(1.5 * TRANSACTION_TIMEOUT_S))


def twin(system: System, r: Random) -> float:
    """Somebody opens a slot of the job, as a second driver would, and does no more."""
    cluster, query = system.cluster, system.settings.query.name
    with closing(Client(cluster.bootstrap_servers, cluster.options)) as client:
        Slot(client, slot_name(query, 0), query).open()
    return 0.0


def zombie(system: System, r: Random) -> float:
    """The whole job stands still, another of its name takes over on a checkpoint of its own, and the first goes on:
    it must end as the older one. The other is the job from then on."""
    first = system.job
    before = sum(system.commits.committed().values())
    itself = of_pid(first.pid)

    def take_over() -> None:
        system.job = system.start(system.flags())
        committed = system.commits.committed
        system.job.wait_for("committed", lambda: sum(committed().values()) > before, TAKES_OVER_WITHIN_S)

    _stopped([*([itself] if itself else []), *_running(system).everything], take_over)
    _fenced(system, first)
    return 0.0


def rival(system: System, r: Random) -> float:
    """Another job of this name starts on a checkpoint of its own while the first is at work: the first must end as the
    older one. The other is the job from then on."""
    first = system.job
    system.job = system.start(system.flags())
    _fenced(system, first)
    return 0.0


def settings(system: System, r: Random) -> float:
    """The job is told to stop, and started with another algorithm, and with or without a quota that nobody reaches."""
    began = time.monotonic()
    algorithm, quota = r.choice(ALGORITHMS), r.choice([NO_QUOTA, AMPLE_QUOTA])
    system.start_again({"matching.algorithm": algorithm, "quotas.deliveries_per_second": quota})
    return time.monotonic() - began


def upgrade(system: System, r: Random) -> float:
    """Another version of the code takes over: with a checkpoint of its own while the older one runs, or with the same
    checkpoint after the older one was told to stop."""
    system.change_version()
    began = time.monotonic()
    if r.choice((True, False)):
        rival(system, r)
    else:
        system.start_again({})
    return time.monotonic() - began


def disk(system: System, r: Random) -> float:
    """The file system of the checkpoint is full for some seconds."""
    began = time.monotonic()
    system.disk.fill()
    try:
        time.sleep(r.uniform(3.0, 6.0))
    finally:
        system.disk.free()
    return time.monotonic() - began


def disk_read_only(system: System, r: Random) -> float:
    """The file system of the checkpoint can only be read when the job starts again after a kill, and for some time
    after."""
    began = time.monotonic()
    try:
        _between(system, lambda: system.disk.writable(False))
        time.sleep(r.uniform(10.0, 20.0))
    finally:
        system.disk.writable(True)
    return time.monotonic() - began


def checkpoint_spoiled(system: System, r: Random) -> float:
    """A byte of some of the checkpoint's files is another when the job starts again after a kill. Not of query.json: a
    job does not start on a checkpoint that does not say whose it is."""

    def spoil() -> None:
        there = sorted(system.job.checkpoint.rglob("*"))
        files = [path for path in there if path.is_file() and path.stat().st_size and path.name != "query.json"]
        for path in r.sample(files, min(SPOILED, len(files))):
            content = bytearray(path.read_bytes())
            content[r.randrange(len(content))] ^= r.randrange(1, 256)
            path.write_bytes(content)

    _between(system, spoil)
    return 0.0


def checkpoint(system: System, r: Random) -> float:
    """The checkpoint is deleted under the running job, which is killed then."""
    shutil.rmtree(system.job.checkpoint, ignore_errors=True)
    time.sleep(r.uniform(0.0, 2.0))
    kill(system.job.tree().jobs)
    return 0.0


def checkpoint_between(system: System, r: Random) -> float:
    """The checkpoint is deleted after the job was killed and before it starts again."""
    _between(system, lambda: shutil.rmtree(system.job.checkpoint))
    return 0.0


def topic(system: System, r: Random) -> float:
    """The topic of a subscriber is deleted, perhaps amid a batch. What it held is read before."""
    _delete(system, [r.randrange(system.load.subscribers)])
    return 0.0


def topics(system: System, r: Random) -> float:
    """The topics of ten subscribers are deleted at once."""
    _delete(system, r.sample(range(system.load.subscribers), TOPICS))
    return 0.0


def crowd(system: System, r: Random) -> float:
    """A thousand subscribers appear, each with all events of a symbol, and leave again. Then their topics go."""
    began = time.monotonic()
    newcomers = range(system.load.subscribers, system.load.subscribers + CROWD)
    system.writing.subscribe(newcomers)
    system.settle()
    time.sleep(r.uniform(1.0, 3.0))
    system.writing.unsubscribe(newcomers)
    system.settle()
    system.forget(newcomers)
    return time.monotonic() - began


def partitions(system: System, r: Random) -> float:
    """Add a partition to both topics, and write records to it."""
    system.add_partitions()
    return 0.0


def timestamp(system: System, r: Random) -> float:
    """Events and changes with timestamps that no clock shows."""
    system.writing.event_timestamps_ms += TIMESTAMPS_MS
    system.writing.change_timestamps_ms += TIMESTAMPS_MS
    system.job.wait_for("written", lambda: not system.writing.change_timestamps_ms, STARTS_WITHIN_S)
    return 0.0


def clock(system: System, r: Random) -> float:
    """The clock of the driver or of the workers jumps by hours, ahead or back, and after some time back again."""
    role, ahead_s = r.choice(ROLES), r.choice((-1, 1)) * r.uniform(*JUMP_S)
    system.clocks.set(role, ahead_s)
    try:
        time.sleep(r.uniform(5.0, 15.0))
    finally:
        system.clocks.set(role, 0.0)
    return 0.0


def _delete(system: System, subscribers: Sequence[int]) -> None:
    names = [system.reading.topic_of(subscriber) for subscriber in subscribers]
    seen = system.commits.seen
    number = 0

    def delete() -> None:
        nonlocal number
        while time.monotonic() - seen[-1].at_s < SETTLED_S:
            time.sleep(0.05)
        for subscriber in subscribers:
            system.reading.subscriber(subscriber)
        system.cluster.topics().delete(names)
        for name in names:
            system.reading.deleted(name)
        number = len(seen)

    _stopped(_running(system).drivers, delete)
    system.job.wait_for("committed", lambda: len(seen) > number, TAKES_OVER_WITHIN_S)
    begin, end = system.commits.events_of(seen[number - 1]), system.commits.events_of(seen[number])
    system.gone += [Gone(subscriber, begin, end) for subscriber in subscribers]


def slow(system: System, r: Random) -> float:
    """Between the job and the broker each message takes 200 ms."""
    return _proxied(system, lambda proxy: proxy.slow(0.2, 2e6), 10.0)


def drop(system: System, r: Random) -> float:
    """Cut all connections between the job and the broker."""
    return _proxied(system, Proxy.drop, 0.0)


def blackhole(system: System, r: Random) -> float:
    """Connections to the broker stay open, and nothing comes through."""
    return _proxied(system, Proxy.blackhole, r.uniform(3.0, 10.0))


def lose(system: System, r: Random) -> float:
    """Cut connections amid requests to the broker: some requests are lost, and some are obeyed without an answer."""
    return _proxied(system, lambda proxy: proxy.lose(LOST), DISTURBED_S)


def double(system: System, r: Random) -> float:
    """Many requests reach the broker twice, as if the job had tried again without need."""
    return _proxied(system, lambda proxy: proxy.double(DOUBLED), DISTURBED_S)


def reorder(system: System, r: Random) -> float:
    """Requests of different connections overtake each other."""
    return _proxied(system, lambda proxy: proxy.reorder(REORDERED_S), DISTURBED_S)


def burst(system: System, r: Random) -> float:
    """Ten times the load."""
    system.writing.factor = 10.0
    try:
        time.sleep(10.0)
    finally:
        system.writing.factor = 1.0
    return 0.0


def poison(system: System, r: Random) -> float:
    """Rubbish in both topics."""
    both = zip(rubbish.events(r), rubbish.changes(r), strict=True)
    records = [
        (*record, is_event)
        for pair in islice(both, RUBBISH)
        for record, is_event in zip(pair, (True, False), strict=True)
    ]
    system.writing.rubbish(records)
    return 0.0


def _fenced(system: System, first: JobProcess) -> None:
    """Wait until the older job has ended as such."""
    system.job.wait_for("rid of the older job", lambda: first.exit_code() is not None, TAKES_OVER_WITHIN_S)
    if first.exit_code() != 1 or "has taken over" not in first.log.read_text(errors="replace"):
        raise JobError(f"the older job ended with exit code {first.exit_code()}, not as fenced:\n{first.last_lines()}")


def _between(system: System, what: Callable[[], object]) -> None:
    """Done after the job was killed and before it starts again."""
    supervisor = of_pid(system.job.pid)
    assert supervisor is not None

    def kill_and_do() -> None:
        gone = system.job.tree().jobs
        kill(gone)
        ended(gone, ENDS_WITHIN_S)
        what()

    _stopped([supervisor], kill_and_do)


def _stopped(processes: Sequence[Process], meanwhile: Callable[[], object]) -> float:
    began = time.monotonic()
    for process in processes:
        process.send(signal.SIGSTOP)
    try:
        meanwhile()
    finally:
        for process in reversed(processes):
            process.send(signal.SIGCONT)
    return time.monotonic() - began


def _proxied(system: System, what: Callable[[Proxy], None], for_s: float) -> float:
    assert system.proxy is not None
    began = time.monotonic()
    what(system.proxy)
    try:
        time.sleep(for_s)
    finally:
        system.proxy.pass_on()
    return time.monotonic() - began if for_s else 0.0


def _busiest(workers: Sequence[Process]) -> Process:
    before = [taken([worker.pid], full=False).cpu_s for worker in workers]
    time.sleep(LOOKS_S)
    worked = [taken([worker.pid], full=False).cpu_s - spent for worker, spent in zip(workers, before, strict=True)]
    return workers[worked.index(max(worked))]


def _running(system: System) -> ProcessTree:
    """Return the processes of a job that has a driver, a JVM and a worker."""
    system.job.wait_for("complete", lambda: bool(system.tree().workers), STARTS_WITHIN_S)
    return system.tree()


KINDS: dict[str, Kind] = {
    "driver": driver,
    "jvm": jvm,
    "job": job,
    "fork-server": fork_server,
    "worker": worker,
    "hang": hang,
    "daemon": daemon,
    "compactor": compactor,
    "early": early,
    "executor": executor,
    "broker": broker,
    "broker-disk": broker_disk,
    "broker-pause": broker_pause,
    "pause": pause,
    "freeze": freeze,
    "straggler": straggler,
    "twin": twin,
    "zombie": zombie,
    "rival": rival,
    "settings": settings,
    "upgrade": upgrade,
    "disk": disk,
    "disk-read-only": disk_read_only,
    "checkpoint": checkpoint,
    "checkpoint-between": checkpoint_between,
    "checkpoint-spoiled": checkpoint_spoiled,
    "topic": topic,
    "topics": topics,
    "crowd": crowd,
    "partitions": partitions,
    "slow": slow,
    "drop": drop,
    "blackhole": blackhole,
    "lose": lose,
    "double": double,
    "reorder": reorder,
    "burst": burst,
    "poison": poison,
    "timestamp": timestamp,
    "clock": clock,
    "replay": interrupted.replay,
    "redrive": interrupted.redrive,
}


def possible(kinds: Sequence[str], system: System) -> tuple[list[str], dict[str, str]]:
    """Return the kinds of faults that this machine and system allow, and the reasons against the others."""
    left_out = {}
    if system.spark is None:
        left_out["executor"] = "there are executors on a cluster only (--cluster)"
    if system.proxy is None:
        alone = dict.fromkeys((*PROXIED, "broker-disk"), "with one broker only (no --replicated)")
        left_out |= alone
    if not system.disk.mounted:
        mounting = dict.fromkeys(("disk", "disk-read-only", "broker-disk"), "this machine lets us mount no file system")
        left_out |= mounting
    if system.compacted:
        left_out["replay"] = "the log cleaner may delete events between two replays (no --compacted)"
    return [k for k in kinds if k not in left_out], {k: left_out[k] for k in kinds if k in left_out}
