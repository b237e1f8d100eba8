"""Connect several processes and let them exchange tensors.

`torchrun --nproc-per-node N -m conjoin …` starts the processes, or `conjoin.runtime.launcher` on this machine. A single
process is a mesh of one, for which every method of `Mesh` returns at once. Processes exchange tensors and text, never
objects: torch would pickle objects, and unpickling data from a socket can execute code.
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
"""How long a process waits for a silent one, for example after a power failure of its machine. A process that dies
closes its connections, which the others notice at once."""
COURTESY = 20.0
"""Seconds that a process with an error waits until the first process has reported it."""
ASK_EVERY = 0.25
"""Seconds between two exchanges about stopping."""
REPORTED = "conjoin/told"


@dataclass(frozen=True)
class Mesh:
    """The position of this process: `count` processes hold `replicas` copies of a table, each divided into `shards`.

    Queries are divided among replicas, rows among shards. All other work is small and every process does all of it, so
    everything outside the table is equal in all processes.
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
        """Does this process write files and print messages?"""
        return self.rank == 0

    def span(self, rows: int, shard: int | None = None) -> tuple[int, int]:
        """First row and last row + 1 of a shard, by default this one; the last shards may be shorter or empty."""
        size = -(-rows // self.shards)
        first = min(rows, (self.shard if shard is None else shard) * size)
        return first, min(rows, first + size)

    def part(self, questions: int) -> slice:
        """The queries of this replica."""
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
        """The tensors of all shards, in order; all have the same shape."""
        if self.shards == 1:
            return [x]
        tensors = [torch.empty_like(x) for _ in range(self.shards)]
        with lost_process_errors():
            dist.all_gather(tensors, x.contiguous(), group=_groups.get("shards"))
        return tensors

    def from_shard(self, x: Tensor, shard: int) -> Tensor:
        """The tensor of one shard, copied into `x` in all processes of this replica."""
        if self.shards > 1:
            with lost_process_errors():
                dist.broadcast(x, self.replica * self.shards + shard, group=_groups.get("shards"))
        return x

    def agreed(self, value: float) -> float:
        """The value of the first process, in all processes."""
        if self.count == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64)
        with lost_process_errors():
            dist.broadcast(shared, 0)
        return float(shared)

    def most(self, value: float) -> float:
        """The largest value of any process."""
        if self.count == 1:
            return value
        return float(self._reduced(torch.tensor(value, dtype=torch.float64), dist.ReduceOp.MAX, "all"))

    def agreeing(self, ask: Callable[[], bool]) -> Callable[[], bool]:
        """A function that is true in all processes once `ask` is true in one of them.

        The processes exchange their answers about every ASK_EVERY seconds. Every process must call the function equally
        often.
        """
        left, calls, since = 1, 1, time.monotonic()

        def asked() -> bool:
            nonlocal left, calls, since
            left -= 1
            if left:
                return False
            yes, now = self.most(ask()), time.monotonic()
            # At most twice as many calls as before, because the next calls may take longer.
            calls = int(self.agreed(max(1, min(2 * calls, calls * ASK_EVERY // max(now - since, 1e-9)))))
            left, since = calls, now
            return bool(yes)

        return asked

    def heard(self, words: str) -> list[str]:
        """The texts of all processes, in order."""
        if self.count == 1:
            return [words]
        octets = words.encode()
        own = torch.zeros(int(self.most(len(octets))), dtype=torch.uint8)
        own[: len(octets)] = torch.tensor(list(octets), dtype=torch.uint8)
        if not len(own):
            return [""] * self.count
        texts = [torch.empty_like(own) for _ in range(self.count)]
        with lost_process_errors():
            dist.all_gather(texts, own)
        return [bytes(text.tolist()).rstrip(b"\0").decode(errors="replace") for text in texts]

    def _reduced(self, x: Tensor, operation: Any, among: str) -> Tensor:
        with lost_process_errors():
            dist.all_reduce(x, operation, group=_groups.get(among))
        return x


ALONE = Mesh()
_current = ALONE
_groups: dict[str, Any] = {}
"""The process groups: the other shards, the other replicas; without an entry, all processes. Tables do not hold them,
so they can end with `joined`."""


def current() -> Mesh:
    """The mesh that this process belongs to."""
    return _current


@contextmanager
def joined() -> Iterator[Mesh]:
    """Join the processes that `conjoin.runtime.launcher` or torchrun started; a single process is a mesh of one."""
    global _current  # noqa: PLW0603 (the process group is as global)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    # Imported later, for example by an optimiser, this module would keep the process group alive as a default argument.
    # Its threads would outlive the interpreter, and sometimes one of them aborts a process that has finished its work.
    import torch.distributed.nn.functional

    cards = torch.accelerator.device_count()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if local_rank < cards:
        torch.accelerator.set_device_index(local_rank)
    store, rank, count = _rendezvous()
    # torchrun may keep its store when it restarts the processes; the prefix hides the entries of the dead ones.
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
    """Check the peers after the processes are connected and before they exchange anything."""
    if connections := strangers():
        raise ConjoinError(
            f"A process of another user of this machine connected to this run ({'; '.join(connections)}). This process "
            "stops before it exchanges any data. Start the run again with the same call, or command with --resume."
        )


def _rendezvous() -> tuple[Any, int, int]:
    """The store that the processes share, the rank of this process, and the number of processes.

    Processes of the launcher share a file; others follow the environment. If all of them are on this machine, they
    communicate over its loopback interface, which other machines cannot reach.
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
    store_and_ranks: tuple[Any, int, int] = next(rendezvous("env://", timeout=PATIENCE))
    return store_and_ranks


def init_mesh(replicas: int) -> Mesh:
    """Divide the joined processes into `replicas` copies of the table, each of them sharded."""
    global _current  # noqa: PLW0603
    mesh = _current
    if replicas < 1 or mesh.count % replicas:
        raise UsageError(
            f"{mesh.count} process{'es' * (mesh.count > 1)} cannot hold {replicas} replicas. "
            "Choose a number of replicas (--replicas) that divides the number of processes."
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
    """Tell the other processes that the first one has reported the error, so that they may end."""
    if mesh.board is not None:
        with suppress(RuntimeError):  # the process with the store may have ended
            mesh.board.set(REPORTED, "yes")


def wait_for_error_report(mesh: Mesh) -> None:
    """Wait until the first process has reported the error: the end of one process stops the others."""
    give_up = time.monotonic() + COURTESY
    while mesh.board is not None and time.monotonic() < give_up:
        try:
            if mesh.board.check([REPORTED]):
                return
        except RuntimeError:
            return
        time.sleep(0.05)


@contextmanager
def lost_process_errors() -> Iterator[None]:
    """Turn network errors, which mean that another process has ended, into ProcessLost."""
    try:
        yield
    except UsageError:
        raise
    except RuntimeError as error:
        spelled = str(error).strip().splitlines()[0]
        known = re.search(r"connection (closed|reset|refused)|timed out|timeout", spelled, re.IGNORECASE)
        reason = known[0].casefold() if known else spelled
        raise ProcessLost(
            f"Another process of this run has ended ({reason}), so this process stops too. Continue from the last "
            "checkpoint with the same call, or command with --resume. torchrun restarts by itself (--max-restarts)."
        ) from error
