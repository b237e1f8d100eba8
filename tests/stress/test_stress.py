"""The short sizes of what `make stress` does at length. Each leaves its counts for docs/reliability.md."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import tests.stress.__main__ as parts
from tests.cli.commands import conjoin as in_process
from tests.stress import corruption, graphs, kills, lockout, moments, power, service, storage
from tests.stress.counts import record_short
from tests.stress.kinds import KINDS, kind_of, specimens
from tests.stress.processes import conjoin

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every kind of file in it."""
    return specimens(tmp_path_factory.mktemp("specimens"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: killing asks nothing of a disk, and epochs need not wait for it."""
    with tempfile.TemporaryDirectory(dir=parts.MEMORY if parts.MEMORY.is_dir() else tmp_path) as place:
        yield Path(place)


@pytest.mark.slow
def test_killed_and_stopped_run_ends_bit_identical(memory: Path) -> None:
    counts = kills.kill_training(memory, kills=5, signals=2)
    every = memory / "every"
    every.mkdir()
    at = moments.kill_at_every_operation(every, every=40)
    by_chance = [name for name in at if name.startswith(("SIGKILL", "of them"))]
    record_short("kills", {**counts, **at}, but=("epochs run again after a kill, at most", *by_chance))
    assert int(at["SIGKILL at a file operation after the result"]) > 2


@pytest.mark.slow
def test_study_killed_five_times_ends_the_same(memory: Path) -> None:
    record_short("studies", kills.kill_study(memory, kills=5))


@pytest.mark.slow
def test_an_ingestion_killed_five_times_leaves_the_same_graph(memory: Path) -> None:
    counts = kills.kill_ingest(memory, kills=5)
    record_short("ingestion", counts, but=("of them after the graph was in its place",))


def test_power_cuts_lose_no_synced_data(tmp_path: Path) -> None:
    counts = power.cut_everywhere(tmp_path, every=9)
    assert int(counts["power cuts"]) > 20
    record_short(
        "power",
        counts,
        but=("operations recorded", "power cuts", "different disks opened", "of them with a finished run"),
    )


def test_disk_model_loses_unsynced_data() -> None:
    """The model of the disk can fail: what was never synced is not there, what was only renamed may be empty."""
    written = [power.Operation("create", "a", 1), power.Operation("rename", "a", 1, "b")]
    assert list(power.survivors(written)) == [{}, {"a": b""}, {"b": b""}]
    synced = [written[0], power.Operation("fsync", "a", 1, content=b"x"), written[1], power.Operation("fsync", ".", 0)]
    assert list(power.survivors(synced)) == [{"b": b"x"}]


@pytest.mark.slow
def test_full_disks_keep_earlier_results(tmp_path: Path) -> None:
    counts = storage.fill_the_disk(tmp_path, sizes=2)
    record_short("storage", {key: value for key, value in counts.items() if key != "real file systems"})


@pytest.mark.slow
def test_corruption_of_every_kind_of_file_is_detected(made: Path) -> None:
    tried = noticed = 0
    for kind in KINDS:
        file = next(f for f in sorted(made.rglob("*")) if f.is_file() and kind_of(str(f.relative_to(made))) is kind)
        more, of_them = corruption.corrupted(kind, file, values=1, body=200 if kind.cheap else 20, every=4)
        tried, noticed = tried + more, noticed + of_them
    assert noticed > 0.7 * tried
    record_short("corruption", {"kinds of files": len(KINDS), "unnoticed and harmful": 0})


@pytest.mark.slow
def test_every_written_file_is_of_a_known_kind(made: Path, tmp_path: Path) -> None:
    """Files for people or other programs are in a separate folder and are not read back."""
    log, out = tmp_path / "log", tmp_path / "out"
    out.mkdir()
    run = made / "run"
    for words in (
        ("rank", run, "--split", "valid"),
        ("ask", run, "e1", "r1", "?"),
        ("similar", run, "e1"),
        ("mine", run, "-n", 5, "--out", out / "missing.csv"),
        ("explain", run, "e1", "r1", "e2"),
        ("export", run, "-o", made / "bundle"),
        ("study", "status", made / "study.toml", "--root", made / "results"),
        ("study", "report", made / "study.toml", "--root", made / "results", "-o", out / "report"),
    ):
        conjoin(*words, log=log)
    (out / "new.tsv").write_text("newcomer\tr1\te2\n", encoding="utf-8")
    conjoin("fold", run, out / "new.tsv", "-o", made / "folded", log=log)
    paths = [str(file.relative_to(made)) for file in made.rglob("*") if file.is_file()]
    unknown = [path for path in paths if kind_of(path) is None and path != "bundle/README.md"]
    assert not unknown


@pytest.mark.slow
def test_odd_graphs_are_read_trained_and_asked(tmp_path: Path) -> None:
    def call(*words: object, log: Path) -> tuple[int, str]:
        ran = in_process(*words)
        return ran.code, ran.err + ran.out

    record_short("graphs", graphs.odd_graphs(tmp_path, relations=2_000, call=call))


@pytest.mark.slow
def test_service_survives_malformed_requests(made: Path) -> None:
    counts = service.attacked(made / "run", requests=1_000, slow=30)
    steady = {key: value for key, value in counts.items() if "MiB" not in key and "of them" not in key}
    record_short("attack", steady)


@pytest.mark.slow
def test_service_answers_while_clients_exhaust_connections(made: Path) -> None:
    limits = ("--connections", "40", "--connections-per-client", "16", "--sending-seconds", "1")
    counts = lockout.lock_out(made / "run", lockout.Size(refused=80, slow=60, idle=90, options=limits))
    record_short("lockout", counts, but=("connections open at the end",))


@pytest.mark.slow
def test_service_soak_of_three_seconds(made: Path) -> None:
    counts = service.soak(made / "run", seconds=3, pause=0)
    assert int(counts["requests"]) > 20
    record_short("soak", {"seconds": counts["seconds"]})


def test_every_part_has_a_short_run() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))
    recorded = set(re.findall(r'record_short\(\s*"(\w+)"', text))
    assert not set(parts.PARTS) - recorded
