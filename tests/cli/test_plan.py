"""ingest, plan, and training that is refused because it needs too much memory."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.cli.commands import TINY, assert_refused, conjoin

from conjoin.cli import plan
from conjoin.cli.options import bytes_of
from conjoin.errors import UsageError
from conjoin.forms.notation import form
from conjoin.runtime import device
from conjoin.runtime.device import held_bytes
from conjoin.training.steps import choose

FACTS = [f"city {i}\tin\tland {i % 7}" for i in range(40)]
FACTS += [f"city {i}\tnear\tcity {(i + 1) % 40}" for i in range(40)]


def test_an_ingested_graph_is_used_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "facts.tsv"
    file.write_text("\n".join([*FACTS, "broken", FACTS[0]]), encoding="utf-8")
    graph, run = str(tmp_path / "graph"), str(tmp_path / "run")
    sizes = ("--valid", "3", "--test", "3")
    made = conjoin("ingest", str(file), "-o", graph, "--on-error", "skip", "--threads", "1", *sizes, "--json").json
    assert (made["entities"], made["relations"], made["train"], made["valid"], made["test"]) == (47, 2, 74, 3, 3)
    assert list(made["sources"][0]["problems"].values()) == [1]
    assert made["sources"][0]["samples"][0].startswith(f"{file}:{len(FACTS) + 1}: ")
    assert conjoin("inspect", graph, "--json").json["sizes"]["entities"] == 47
    trained = conjoin("train", graph, "--form", "complex", *TINY, "-o", run, "--json").json
    assert trained["test"]["mrr"] > 0
    assert conjoin("rank", run, "--split", "train", "--json").json["questions"] == 148
    assert conjoin("ask", run, "city 1", "in", "?", "--json").code == 0
    assert_refused(conjoin("ask", run, "city", "in", "?"), "'city'", "city ")
    again = conjoin("ingest", str(file), "-o", graph, "--on-error", "skip")
    assert_refused(again, graph, "--overwrite")
    assert_refused(conjoin("ingest", str(file), "-o", str(tmp_path / "other")), f"{file}:{len(FACTS) + 1}: ")
    shown = conjoin("ingest", str(file), "-o", graph, "--on-error", "skip", "--overwrite", *sizes)
    assert "47" in shown.out
    assert f"{file}:{len(FACTS) + 1}: " in shown.err


def test_plan_of_a_graph_and_of_numbers_alone() -> None:
    told = conjoin("plan", "atlas", "--form", "5star-conj", "--rank", "8", "--memory", "3GB", "--json").json
    assert told["parameters"]["total"] == 2279 * 16 + 2 * 14 * 32
    held = told["held_bytes"]
    assert held > 100e6, "Python and torch hold more than that"
    assert told["available_bytes"] == 3e9 - held
    assert told["fits"] is True
    assert told["time"]["seconds_per_epoch"] > 0
    assert told["tying"]["share_of_relations"] == 0.5
    words = ("--entities", "1000000000", "--triples", "1000000", "--rank", "100", "--processes", "4", "--no-probe")
    large = conjoin("plan", *words, "--memory", "141GB", "--device", "cuda", "--json").json
    assert large["fits"] is False
    assert (large["held_bytes"], large["available_bytes"]) == (0, 141e9), "of a card that is not here"
    assert large["time"] is None
    assert large["recommendation"]["shards"] > 4
    text = conjoin("plan", *words, "--memory", "141GB", "--device", "cuda").out
    assert "141 GB" in text
    assert_refused(conjoin("plan"), "--entities", "--triples")
    assert_refused(conjoin("plan", "atlas", "--entities", "5", "--triples", "6"), "--entities")


def test_plan_uses_the_precision_of_the_local_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "choose_device", lambda _: device.Choice(torch.device("cuda"), "an old one"))
    monkeypatch.setattr(choose, "_lacking", lambda _: "fused kernels need a newer one")
    taken = partial(plan._usual_precision, form=form("complex"), negatives=0, processes=1)
    assert taken(None, here=True) == "tf32"
    assert taken("cuda", here=False) == "bf16"


def test_plan_and_train_refuse_the_same_negatives(tmp_path: Path) -> None:
    for words in (("plan", "atlas"), ("train", "atlas", "-o", tmp_path / "run")):
        assert_refused(conjoin(*words, "--negatives", "2280"), "2280")
    assert conjoin("plan", "atlas", "--negatives", "2279").code == 0


def test_training_that_cannot_fit_is_refused_with_advice(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    held = held_bytes(torch.device("cpu")) / 1e6
    refused = conjoin("train", "atlas", "--rank", "4000", "--memory-limit", f"{held + 150:.0f}MB", "-o", run)
    assert_refused(refused, "--rank", "--memory-limit any")
    whole = conjoin("train", "atlas", *TINY, "--memory-limit", f"{held:.0f}MB", "-o", run)
    assert_refused(whole, "--memory-limit any")  # the limit includes the program and the graph
    assert not Path(run).exists()
    assert conjoin("train", "atlas", *TINY, "--epochs", "0", "--memory-limit", "any", "-o", run).code == 0
    assert conjoin("train", "atlas", *TINY, "--epochs", "0", "--memory-limit", "1MB", "-o", run).code == 0, "finished"


@pytest.mark.parametrize(
    ("text", "count"), [("3GB", 3 * 10**9), ("512MiB", 512 << 20), ("1.5t", 15 * 10**11), ("7", 7), ("2 kb", 2000)]
)
def test_amounts_of_memory_are_parsed(text: str, count: int) -> None:
    assert bytes_of(text) == count


@pytest.mark.parametrize("text", ["", "much", "0GB", "-1GB", "3 GBs", "9" * 400, "9" * 30 + "GB"])
def test_invalid_amounts_of_memory_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(text))):
        bytes_of(text)


def test_plan_takes_the_reading_options(tmp_path: Path) -> None:
    file = tmp_path / "facts.csv"
    file.write_text("nr;from;via;to\n" + "".join(f"{i};a{i};r;b{i % 3}\n" for i in range(9)))
    words = ("plan", file, "--rank", 4, "--no-probe", "--json")
    assert_refused(conjoin(*words), "--delimiter ';'")
    assert conjoin(*words, "--delimiter", ";", "--columns", "from,via,to").json["graph"]["entities"] == 12
