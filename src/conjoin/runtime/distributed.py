"""Several processes that work as one: how they find each other and what they tell each other.

`torchrun --nproc-per-node N -m conjoin …` starts them, or `conjoin.runtime.launcher` on this machine. A process
that was started alone is a mesh of one: every verb of `Mesh` is then free. They exchange tensors and text, never
objects: torch would pickle those, and unpickling what came over a socket can execute.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from conjoin.errors import ConjoinError, ProcessLost, UsageError
from conjoin.runtime.launcher import SOCKETS, loopback, store_file
from conjoin.runtime.peer_check import strangers

PATIENCE = timedelta(minutes=10)
"""How long a process waits for another that is silent, as after a machine lost its power. One that dies closes its
connections, and is noticed at once."""
COURTESY = 20.0
"""Seconds that a process which found an error waits for the first one to tell it."""
ASK_EVERY = 0.25
"""Seconds between two times that the processes ask each other whether to stop."""
TOLD = "conjoin/told"


@dataclass(frozen=True)
class Mesh:
    """Where this process stands: `count` processes are `replicas` copies of a table, each cut into `shards` by rows.

    Questions are divided among replicas, rows among shards. All other work is small and every process does all of it,
    so that what stands outside the table is the same everywhere.
    """

    rank: int = 0
    count: int = 1
    replicas: int = 1
    board: Any = None

    @property
    def shards(self) -> int:
        return self.count // self.replicas

    @property
    def shard(self) -> int:
        return self.rank % self.shards

    @property
    def replica(self) -> int:
        return self.rank // self.shards

    @property
    def is_first(self) -> bool:
        """Does this process write files and talk to the person?"""
        return self.rank == 0

    def span(self, rows: int, shard: int | None = None) -> tuple[int, int]:
        """First and last + 1 of the rows of a shard, this one's by default; the last shards may be shorter or empty."""
        size = -(-rows // self.shards)
        first = min(rows, (self.shard if shard is None else shard) * size)
        return first, min(rows, first + size)

    def part(self, questions: int) -> slice:
        """The questions that this replica answers."""
        size = -(-questions // self.replicas)
        return slice(min(questions, self.replica * size), min(questions, (self.replica + 1) * size))

    def total(self, x: Tensor) -> Tensor:
        """The sum over the shards, in place."""
        return self._reduced(x, dist.ReduceOp.SUM, "shards") if self.shards > 1 else x

    def highest(self, x: Tensor) -> Tensor:
        """The largest over the shards, in place."""
        return self._reduced(x, dist.ReduceOp.MAX, "shards") if self.shards > 1 else x

    def over_replicas(self, x: Tensor) -> Tensor:
        """The sum over the replicas, in place."""
        return self._reduced(x, dist.ReduceOp.SUM, "replicas") if self.replicas > 1 else x

    def gathered(self, x: Tensor) -> list[Tensor]:
        """What every shard holds, in their order; all of one shape."""
        if self.shards == 1:
            return [x]
        found = [torch.empty_like(x) for _ in range(self.shards)]
        with lost_process_errors():
            dist.all_gather(found, x.contiguous(), group=_groups.get("shards"))
        return found

    def from_shard(self, x: Tensor, shard: int) -> Tensor:
        """What that shard holds, in place, for the processes of the first replica."""
        if self.shards > 1:
            with lost_process_errors():
                dist.broadcast(x, self.replica * self.shards + shard, group=_groups.get("shards"))
        return x

    def agreed(self, value: float) -> float:
        """The first process's value, whatever the others think."""
        if self.count == 1:
            return value
        told = torch.tensor(value, dtype=torch.float64)
        with lost_process_errors():
            dist.broadcast(told, 0)
        return float(told)

    def most(self, value: float) -> float:
        """The largest value of any process."""
        if self.count == 1:
            return value
        return float(self._reduced(torch.tensor(value, dtype=torch.float64), dist.ReduceOp.MAX, "all"))

    def agreeing(self, ask: Callable[[], bool]) -> Callable[[], bool]:
        """Does any process say yes? For all processes at once, and asked after as many calls as take `ASK_EVERY`: every
        process must call it as often as the others."""
        left, calls, since = 1, 1, time.monotonic()

        def asked() -> bool:
            nonlocal left, calls, since
            left -= 1
            if left:
                return False
            yes, now = self.most(ask()), time.monotonic()
            # At most twice as many calls as before: the next ones may take longer.
            calls = int(self.agreed(max(1, min(2 * calls, calls * ASK_EVERY // max(now - since, 1e-9)))))
            left, since = calls, now
            return bool(yes)

        return asked

    def heard(self, words: str) -> list[str]:
        """What every process says, in their order."""
        if self.count == 1:
            return [words]
        octets = words.encode()
        said = torch.zeros(int(self.most(len(octets))), dtype=torch.uint8)
        said[: len(octets)] = torch.tensor(list(octets), dtype=torch.uint8)
        if not len(said):
            return [""] * self.count
        found = [torch.empty_like(said) for _ in range(self.count)]
        with lost_process_errors():
            dist.all_gather(found, said)
        return [bytes(each.tolist()).rstrip(b"\0").decode(errors="replace") for each in found]

    def _reduced(self, x: Tensor, operation: Any, among: str) -> Tensor:
        with lost_process_errors():
            dist.all_reduce(x, operation, group=_groups.get(among))
        return x


ALONE = Mesh()
_current = ALONE
_groups: dict[str, Any] = {}
"""Whom this process talks to: other shards, other replicas; all where there is no entry. No table holds them, so that
they end with `joined`."""


def current() -> Mesh:
    """The mesh that this process belongs to."""
    return _current


@contextmanager
def joined() -> Iterator[Mesh]:
    """Join the processes that `conjoin.runtime.launcher` or torchrun started; alone otherwise."""
    global _current  # noqa: PLW0603 (the process group is as global)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    # Imported later, by an optimiser say, this module would keep the process group alive as a default argument: its
    # threads would outlive the interpreter, and now and then one of them aborts a process that has done its work.
    import torch.distributed.nn.functional

    cards = torch.accelerator.device_count()
    place = int(os.environ.get("LOCAL_RANK", "0"))
    if place < cards:
        torch.accelerator.set_device_index(place)
    store, rank, count = _met()
    # torchrun may keep its store when it starts the processes again: without this they would look for dead ones.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    board = dist.PrefixStore(f"conjoin/{attempt}", store)  # type: ignore[attr-defined]
    with lost_process_errors():
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cards else "gloo", store=board, rank=rank, world_size=count, timeout=PATIENCE
        )
    _refuse_strangers()
    _current = Mesh(rank, count, board=board)
    try:
        yield _current
        _groups.clear()
        dist.destroy_process_group()
    finally:
        _current = ALONE


def _refuse_strangers() -> None:
    """Called once the processes are connected and before they exchange anything."""
    if found := strangers():
        raise ConjoinError(
            f"A process of another user of this machine connected to this run ({'; '.join(found)}). This process stops "
            "before it exchanges anything. Start the run again by the same call, or command with --resume."
        )


def _met() -> tuple[Any, int, int]:
    """The store that the processes share, the place of this one among them, and their number.

    Launched ones meet in a file. Others do as the environment says; where all of them are on this machine, they talk
    over its loopback interface, which no other machine reaches.
    """
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if file := store_file():
        store = dist.FileStore(str(file), count)  # type: ignore[attr-defined]
        store.set_timeout(PATIENCE)
        return store, rank, count
    from torch.distributed.rendezvous import rendezvous

    if os.environ.get("LOCAL_WORLD_SIZE") == str(count) and (interface := loopback()):
        for name in SOCKETS:
            os.environ.setdefault(name, interface)
    found: tuple[Any, int, int] = next(rendezvous("env://", timeout=PATIENCE))
    return found


def init_mesh(replicas: int) -> Mesh:
    """Divide the joined processes into so many replicas of the table, each of them sharded."""
    global _current  # noqa: PLW0603
    mesh = _current
    if replicas < 1 or mesh.count % replicas:
        raise UsageError(
            f"{mesh.count} process{'es' * (mesh.count > 1)} cannot hold {replicas} replicas: "
            "choose a number that divides them (--replicas)"
        )
    if replicas == mesh.replicas:
        return mesh
    shards = mesh.count // replicas
    with lost_process_errors():
        rows = [dist.new_group([r * shards + s for s in range(shards)]) for r in range(replicas)]
        columns = [dist.new_group([r * shards + s for r in range(replicas)]) for s in range(shards)]
    _refuse_strangers()
    replica, shard = mesh.rank // shards, mesh.rank % shards
    _groups.update(shards=rows[replica], replicas=columns[shard])
    _current = Mesh(mesh.rank, mesh.count, replicas, mesh.board)
    return _current


def restarted() -> bool:
    """Has torchrun started these processes again after one of them failed?"""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def mark_error_reported(mesh: Mesh) -> None:
    """The first process has said what is wrong: the others may go."""
    if mesh.board is not None:
        with suppress(RuntimeError):  # those who hold the store may have left
            mesh.board.set(TOLD, "yes")


def wait_for_error_report(mesh: Mesh) -> None:
    """Do not end before the first process has said what is wrong: whoever ends first stops the others."""
    give_up = time.monotonic() + COURTESY
    while mesh.board is not None and time.monotonic() < give_up:
        try:
            if mesh.board.check([TOLD]):
                return
        except RuntimeError:
            return
        time.sleep(0.05)


@contextmanager
def lost_process_errors() -> Iterator[None]:
    """What the network says when a process is gone, as an error that names the way out."""
    try:
        yield
    except UsageError:
        raise
    except RuntimeError as error:
        spelled = str(error).strip().splitlines()[0]
        known = re.search(r"connection (closed|reset|refused)|timed out|timeout", spelled, re.IGNORECASE)
        reason = known[0].casefold() if known else spelled
        raise ProcessLost(
            f"another process of this run is gone ({reason}), so this one stops too. The run goes on from its last "
            "checkpoint by the same call, or command with --resume; by itself under torchrun (--max-restarts)."
        ) from error
