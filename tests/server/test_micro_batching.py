"""Questions that arrive together are scored in one batch and get the same answers as alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.served import little_run

import conjoin
from conjoin.predict.predictor import Predictor
from conjoin.server.batch_predict import BatchQuery, answer_together
from conjoin.server.concurrency_limit import ConcurrencyLimit
from conjoin.server.micro_batching import Batcher
from conjoin.server.responses import encoded, in_pieces, joined

Answer = TypeVar("Answer")


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    run: Path = little_run(tmp_path_factory.mktemp("batched"))
    return conjoin.open(run)


def in_a_loop(scenario: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine in a new thread, because the browser tests leave an event loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, scenario).result()


class Recording:
    """Doubles numbers and records the batches. With `held` it blocks until `free` is set."""

    def __init__(self, *, held: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.begun, self.free = threading.Event(), threading.Event()
        if not held:
            self.free.set()

    def __call__(self, numbers: list[int]) -> list[int]:
        self.batches.append(numbers)
        self.begun.set()
        self.free.wait(60)
        if any(number < 0 for number in numbers):
            raise ValueError("negative")
        return [2 * number for number in numbers]


def test_simultaneous_items_form_one_batch() -> None:
    work = Recording()

    async def scenario() -> list[list[int]]:
        batcher = Batcher(work, window=0.01)
        found = await asyncio.gather(*(batcher.submit([number]) for number in range(20)))
        await batcher.close()
        return found

    assert in_a_loop(scenario()) == [[2 * number] for number in range(20)]
    assert work.batches == [list(range(20))]


def test_next_batch_gathers_while_one_runs() -> None:
    work = Recording(held=True)

    async def scenario() -> None:
        batcher = Batcher(work, window=0.001)
        first = asyncio.ensure_future(batcher.submit([0]))
        await asyncio.to_thread(work.begun.wait)
        others = [asyncio.ensure_future(batcher.submit([number])) for number in range(1, 9)]
        await asyncio.sleep(0.01)
        work.free.set()
        await asyncio.gather(first, *others)
        await batcher.close()

    in_a_loop(scenario())
    assert work.batches == [[0], list(range(1, 9))]


def test_event_loop_is_not_blocked_while_scoring() -> None:
    work = Recording(held=True)

    async def scenario() -> list[int]:
        batcher = Batcher(work, window=0.0)
        asked = asyncio.ensure_future(batcher.submit([1]))
        while not work.begun.is_set():
            await asyncio.sleep(0.01)
        assert not asked.done()
        work.free.set()
        found = await asked
        await batcher.close()
        return found

    assert in_a_loop(scenario()) == [2]


def test_batch_size_is_bounded_and_one_disables_batching() -> None:
    for most in (1, 3):
        work = Recording()

        async def scenario(work: Recording = work, most: int = most) -> list[int]:
            batcher = Batcher(work, most=most)
            found = await batcher.submit(list(range(7)))
            await batcher.close()
            return found

        assert in_a_loop(scenario()) == [0, 2, 4, 6, 8, 10, 12]
        assert max(map(len, work.batches)) == most


def test_small_request_is_interleaved_with_a_large_one() -> None:
    work = Recording(held=True)

    async def scenario() -> None:
        batcher = Batcher(work, window=0.0, most=4)
        large = asyncio.ensure_future(batcher.submit(list(range(20))))
        await asyncio.to_thread(work.begun.wait)
        small = asyncio.ensure_future(batcher.submit([100]))
        await asyncio.sleep(0.01)
        work.free.set()
        assert await small == [200]
        assert await large == [2 * number for number in range(20)]
        await batcher.close()

    in_a_loop(scenario())
    assert 100 in work.batches[1]


def test_batch_weight_is_bounded() -> None:
    work = Recording()

    async def scenario() -> list[int]:
        batcher = Batcher(work, weight=lambda number: number, heaviest=10)
        found = await batcher.submit([3, 3, 3, 3, 50, 1, 9, 1])
        await batcher.close()
        return found

    assert in_a_loop(scenario()) == [6, 6, 6, 6, 100, 2, 18, 2]
    assert work.batches == [[3, 3, 3], [3], [50], [1, 9], [1]]


def test_concurrency_limit_holds_per_client_and_in_total() -> None:
    async def scenario() -> None:
        turns, begun, free = ConcurrencyLimit(3, 2), list[str](), asyncio.Event()

        async def one(client: str) -> None:
            async with turns.turn(client):
                begun.append(client)
                await free.wait()

        tasks = []
        for client in ("a", "a", "a", "b", "b"):
            tasks.append(asyncio.ensure_future(one(client)))
            await asyncio.sleep(0)
        assert begun == ["a", "a", "b"], "one client must not take all turns"
        tasks[2].cancel()
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        assert begun == ["a", "a", "b", "b"], "a cancelled request must not take a turn"
        free.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with turns.turn("a"), turns.turn("a"), turns.turn("b"):
            pass

    in_a_loop(scenario())


def test_json_in_pieces_equals_json_at_once() -> None:
    names = ["é", "\ud800", 'a"b', ""] * 400
    for content in ({"a": names, "b": {"c": [], "d": {}}, "e": 1.5}, names, [], {}, None, [[1, 2]] * 1200):
        assert b"".join(in_pieces(content)) == encoded(content)
        assert b"".join(joined(in_pieces(content))) == encoded(content)
    parts = joined(in_pieces(names * 100))
    assert len(parts) > 1
    assert joined([]) == [b""]


def test_failing_item_does_not_fail_the_others() -> None:
    async def scenario() -> list[list[int] | BaseException]:
        batcher = Batcher(Recording(), window=0.01)
        asked = (batcher.submit([number]) for number in (1, -1, 2))
        found = await asyncio.gather(*asked, return_exceptions=True)
        await batcher.close()
        return found

    first, bad, last = in_a_loop(scenario())
    assert (first, last) == ([2], [4])
    assert isinstance(bad, ValueError)


def test_cancelled_request_is_not_scored() -> None:
    work = Recording(held=True)

    async def scenario() -> None:
        batcher = Batcher(work, window=0.0)
        first = asyncio.ensure_future(batcher.submit([1]))
        await asyncio.to_thread(work.begun.wait)
        gone = asyncio.ensure_future(batcher.submit([2]))
        stays = asyncio.ensure_future(batcher.submit([3]))
        await asyncio.sleep(0)
        gone.cancel()
        work.free.set()
        assert await first == [2]
        assert await stays == [6]
        await batcher.close()

    in_a_loop(scenario())
    assert work.batches == [[1], [3]]


def test_close_finishes_waiting_items() -> None:
    async def scenario() -> list[int]:
        batcher = Batcher(Recording(), window=0.02)
        asked = asyncio.ensure_future(batcher.submit([1, 2]))
        await asyncio.sleep(0)
        await batcher.close()
        return await asked

    assert in_a_loop(scenario()) == [2, 4]


ENTITIES = [f"Q{i}" for i in range(8)] + [f"C{i}" for i in range(8)]
entity, relation = st.sampled_from(ENTITIES), st.sampled_from(["P1", "P2"])
words = st.one_of(
    st.tuples(entity, relation, st.none()), st.tuples(st.none(), relation, entity), st.tuples(entity, st.none(), entity)
)
candidates = st.none() | st.lists(entity, min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def asked(draw: st.DrawFn) -> BatchQuery:
    head, middle, tail = draw(words)
    chosen = None if middle is None else draw(candidates)
    return BatchQuery(head, middle, tail, k=draw(st.integers(1, 20)), only_new=draw(st.booleans()), candidates=chosen)


@given(st.lists(asked(), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_batched_answers_equal_single_answers(predictor: Predictor, questions: list[BatchQuery]) -> None:
    together = answer_together(predictor, questions)
    for question, (found, strange) in zip(questions, together, strict=True):
        alone = predictor.ask(
            question.head,
            question.relation,
            question.tail,
            k=question.k,
            only_new=question.only_new,
            candidates=question.candidates,
        )
        assert [a.entity for a in found] == [a.entity for a in alone]
        assert [a.known for a in found] == [a.known for a in alone]
        assert [a.score for a in found] == pytest.approx([a.score for a in alone], abs=1e-5)
        assert strange == []
