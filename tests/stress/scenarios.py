"""Scenarios for faults.py, which makes system calls fail: the files before, the command, and the comparison.

Each scenario runs in a separate folder with relative paths, so that two runs write the same bytes.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.stress.interposed import Interposed
from tests.stress.kills import small_graph

Words = tuple[object, ...]
TRAINING: Words = ("--rank", 4, "--epochs", 2, "--batch", 100, "--validate-every", 1, "--weights", "best")
CONDUCT: Words = ("--checkpoint-epochs", 1, "--device", "cpu")
LITTER = (
    "*.part",
    "*.partial",
    "*.partial.old",
    "*.old",
    "*.ingest",
    "*.ingest.lock",
    "*.ingest/*",
    "*.partial/*",
    "*.old/*",
)
"""Names that only a process at work uses; nothing reads them."""
UNSTEADY = (
    "seconds",
    "seconds_per_epoch",
    "seconds_last_epoch",
    "seconds_total",
    "peak_bytes",
    "files",
    "sha256",
    "time",
    "earlier",
    "command",
)
"""Keys of JSON objects that differ between two runs of a command: clocks, and checksums over them."""
STUDY = """
name = "faulty"
seeds = 1
rows = [{ name = "complex", form = "complex" }, { name = "tied", form = "5star-conj", settings = "complex" }]

[datasets.own]
graph = "graph"

[settings.own]
complex = { rank = 4, epochs = 2, batch = 100 }
"""

Content = Any
Tree = dict[str, Content]


def never(*_: Any) -> bool:
    """For a scenario that writes nothing in pieces, or has no excuse."""
    return False


@dataclass(frozen=True)
class Scenario:
    """`words` is the command; it runs in the folder that `make` fills. `again` is the command that completes it.
    `halfway` says whether a file may have a state between the old and the new one. Files in `optional` may be missing
    after success.
    """

    name: str
    make: Callable[[Interposed, Path], None]
    words: Words
    again: Words = ()
    call: str = ""
    halfway: Callable[[Path, Content, Content], bool] = never
    optional: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    """Files that another trial of a search decides where a failure has spoilt one: they need not be as undisturbed."""
    together: tuple[str, ...] = ()
    """Beginnings of paths. Files that begin alike are of one piece: all as before or all as after."""
    refused: Callable[[Path], bool] = never
    """Whether readers refuse what is neither: where the disk is gone, nothing can be put back."""
    one_by_one: bool = False
    """Whether files of one piece take their places one by one: a disk that is gone in between leaves some of each."""
    excused: Callable[[Path], bool] = never
    """Whether a good end may leave other files than an undisturbed one, because they say what they lack."""
    thin: int = 1
    """Try one of this number of faults, if a run takes seconds or if SQLite writes."""
    answers: bool = False
    """True if the printed output is always the same."""
    rerun_refused: str = ""
    """A folder whose presence makes the command refuse: after a good end it is not run again."""


def tree(root: Path) -> Tree:
    """Path to content of all that counts, without what differs between two undisturbed runs."""
    found: Tree = {}
    for file in sorted(root.rglob("*")):
        name = str(file.relative_to(root))
        if file.is_file() and not is_litter(name) and file.name != ".lock":
            found[name] = content(file)
    return found


def is_litter(name: str) -> bool:
    return any(fnmatch(part, pattern) for part in name.split("/") if part.startswith(".") for pattern in LITTER)


def litter(root: Path) -> list[str]:
    names = (str(path.relative_to(root)) for path in root.rglob("*"))
    return sorted(name for name in names if is_litter(name))


def content(file: Path) -> Content:
    """The bytes of a file, or what they say without clocks."""
    octets = file.read_bytes()
    if file.suffix == ".db":
        return _trials(file)
    if file.suffix == ".jsonl":
        return [_steady(line) for line in octets.split(b"\n")[:-1]] + [octets.rpartition(b"\n")[2]]
    return _steady(octets) if file.suffix == ".json" else octets


def _steady(text: bytes) -> Content:
    try:
        return _without(json.loads(text))
    except ValueError:
        return text


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without(each) for key, each in value.items() if key not in UNSTEADY}
    return [_without(each) for each in value] if isinstance(value, list) else value


def _trials(file: Path) -> Content:
    """Trials that a search has completed: parameters and value."""
    with closing(sqlite3.connect(file)) as database:
        query = (
            "SELECT value_json FROM trial_user_attributes JOIN trials USING (trial_id) "
            "WHERE state = 'COMPLETE' AND key IN ('settings', 'mrr') ORDER BY number, key"
        )
        try:
            return [row for (row,) in database.execute(query)]
        except sqlite3.OperationalError:  # its tables are not made yet
            return []


def _done(processes: Interposed, root: Path, *words: object) -> None:
    ended = processes.run(words, root)
    assert ended.code == 0, ended.said


def _graph(_: Interposed, root: Path) -> None:
    small_graph(root / "graph", facts=150)


def _finished(processes: Interposed, root: Path, *, seed: int = 0, name: str = "run") -> None:
    _graph(processes, root)
    _done(processes, root, "train", "graph", *TRAINING, *CONDUCT, "--seed", seed, "-o", name)


def _half_done(processes: Interposed, root: Path) -> None:
    """A run whose disk was full when it wrote the second checkpoint."""
    from tests.stress.interposed import Call, Fault

    _graph(processes, root)
    second = Call("rename", "run/checkpoint.safetensors", 2)
    ended = processes.run(("train", "graph", *TRAINING, *CONDUCT, "-o", "run"), root, Fault(second, "ENOSPC"))
    assert ended.code, ended.said
    assert (root / "run" / "checkpoint.safetensors").exists(), ended.said


def _facts(_: Interposed, root: Path) -> None:
    _write_facts(root, 0)


def _write_facts(root: Path, first: int) -> None:
    lines = [f"e{(7 * i) % 23}\tr{i % 3}\te{(5 * i + first) % 23}\n" for i in range(80)]
    (root / "facts.tsv").write_text("".join(lines), encoding="utf-8")
    (root / "labels.tsv").write_text("".join(f"e{i}\tentity {i}\n" for i in range(20)), encoding="utf-8")


INGEST: Words = ("ingest", "facts.tsv", "--labels", "labels.tsv", "--threads", 1, "-o", "stored")


def _ingested(processes: Interposed, root: Path) -> None:
    """A stored graph, of other facts than the file has now."""
    _write_facts(root, 1)
    _done(processes, root, *INGEST)
    _write_facts(root, 0)


def _exported(format: str) -> Callable[[Interposed, Path], None]:
    """A run, and an earlier export of other weights."""

    def make(processes: Interposed, root: Path) -> None:
        _finished(processes, root)
        earlier = ("run", "--weights", "last") if format == "safetensors" else ("other",)
        if format != "safetensors":
            _finished(processes, root, seed=1, name="other")
        _done(processes, root, "export", *earlier, "--format", format, "-o", "out")
        shutil.rmtree(root / "other", ignore_errors=True)

    return make


def _calibrated(processes: Interposed, root: Path) -> None:
    _finished(processes, root)
    _done(processes, root, "calibrate", "run", "--fewest", 5, "--method", "platt")


def _mined(processes: Interposed, root: Path) -> None:
    _finished(processes, root)
    _done(processes, root, "mine", "run", "-n", 5, "--out", "mined.csv")


def _split(processes: Interposed, root: Path) -> None:
    _facts(processes, root)
    _done(processes, root, "split", "facts.tsv", "--seed", 1, "-o", "parts")


def _study(processes: Interposed, root: Path) -> None:
    _graph(processes, root)
    (root / "study.toml").write_text(STUDY, encoding="utf-8")


RUN_STUDY: Words = ("study", "run", "study.toml", "--root", "results", *CONDUCT)


def _studied(processes: Interposed, root: Path) -> None:
    _study(processes, root)
    _done(processes, root, *RUN_STUDY)


def _new_facts(processes: Interposed, root: Path) -> None:
    _finished(processes, root)
    (root / "new.tsv").write_text("newcomer\tr1\te2\nnewcomer\tr2\te3\n", encoding="utf-8")


def _of_a_run(file: Path, found: Content, after: Content) -> bool:
    """The first of the events, perhaps with a line cut short, and a whole checkpoint."""
    from conjoin.errors import RunError
    from conjoin.training.checkpoint import load_tensors

    if file.name == "events.jsonl":
        lines = found[:-1]
        return bool(lines == after[: len(lines)])
    if file.name == "checkpoint.safetensors":
        try:
            return bool(load_tensors(file)[0])
        except RunError:
            return False
    return file.name == "failed.json"


def _says_what_is_left_out(work: Path) -> bool:
    """A report on runs of which one cannot be read names it."""
    told = json.loads((work / "report" / "report.json").read_text(encoding="utf-8"))
    return bool(told["left_out"])


def _of_several_processes(file: Path, _: Content, __: Content) -> bool:
    """Any files, as long as the newest checkpoint that is complete can be loaded."""
    from tests.stress.forged import training

    from conjoin.training.checkpoint_distributed import load_shards, newest_shards

    newest = newest_shards(file.parents[1])
    if newest is not None:
        load_shards(newest, training())
    return file.name != "result.json"


def _of_a_search(file: Path, found: Content, after: Content) -> bool:
    """Some of the trials."""
    return file.name.startswith("tune.db") and (file.suffix != ".db" or found == after[: len(found)])


def show_map(folder: str) -> None:
    """What the service does when somebody first looks at the map of a run; prints its points."""
    from conjoin.cli.output import complain
    from conjoin.errors import ConjoinError
    from conjoin.server.open_runs import open_runs
    from conjoin.server.projection import projection_of
    from conjoin.server.settings import ServerSettings

    try:
        run = open_runs([Path(folder)], settings=ServerSettings())["run"]
        print(projection_of(run).points.tolist())
    except (ConjoinError, OSError) as error:
        complain(str(error))
        raise SystemExit(1) from error


def shards(folder: str) -> None:
    """Epochs that are each saved as several processes save them, and the weights at the end, as a run has them."""
    from tests.stress.forged import training

    from conjoin.cli.output import complain
    from conjoin.errors import ConjoinError
    from conjoin.runtime.atomic_files import write_json
    from conjoin.training.checkpoint_distributed import load_shards, newest_shards, save_shards

    if Path("result.json").exists():
        return
    try:
        begun, place = training(), Path(folder)
        if newest := newest_shards(place):
            load_shards(newest, begun)
        for _ in begun:
            save_shards(place, begun)
        write_json(Path("result.json"), [part.tolist() for part in begun.model.parameters()])
        shutil.rmtree(place, ignore_errors=True)
    except (ConjoinError, OSError) as error:
        complain(str(error))
        raise SystemExit(1) from error


def scenarios() -> list[Scenario]:
    train: Words = ("train", "graph", *TRAINING, *CONDUCT, "-o", "run")
    stored: Words = ("train", "stored", *TRAINING, *CONDUCT, "-o", "run")
    resume: Words = ("--resume",)
    tune: Words = ("tune", "graph", "--rank", 4, "--epochs", 1, "--validate-every", 1, "--trials", 1)
    formats = ("safetensors", "parquet", "word2vec")
    return [
        Scenario("train", _graph, train, (*train, *resume), halfway=_of_a_run),
        Scenario("train, half done", _half_done, (*train, *resume), halfway=_of_a_run),
        Scenario("train, done", _finished, train),
        Scenario("train on a stored graph", _ingested, stored, (*stored, *resume), halfway=_of_a_run),
        Scenario("study run", _study, RUN_STUDY, (*RUN_STUDY, "--retry-failed"), halfway=_of_a_run),
        Scenario(
            "study report",
            _studied,
            ("study", "report", "study.toml", "--root", "results", "-o", "report"),
            together=("report/",),
            one_by_one=True,
            optional=("results/faulty/own/patterns.json",),
            excused=_says_what_is_left_out,
        ),
        Scenario("ingest", _facts, INGEST, rerun_refused="stored", together=("stored/",)),
        Scenario("ingest over another graph", _ingested, (*INGEST, "--overwrite"), together=("stored/",)),
        *(Scenario(f"export {f}", _finished, ("export", "run", "--format", f, "-o", "out")) for f in formats),
        *(
            Scenario(
                f"export {f} over another",
                _exported(f),
                ("export", "run", "--format", f, "-o", "out"),
                together=("out/graph/",) if f == "safetensors" else ("out/",),
                one_by_one=f != "safetensors",
            )
            for f in formats
        ),
        Scenario("calibrate", _calibrated, ("calibrate", "run", "--fewest", 5), thin=6),
        Scenario("split", _facts, ("split", "facts.tsv", "-o", "parts"), rerun_refused="parts", together=("parts/",)),
        Scenario(
            "split over another",
            _split,
            ("split", "facts.tsv", "-o", "parts", "--overwrite"),
            together=("parts/",),
            refused=lambda work: not (work / "parts" / "train.txt").exists(),
        ),
        Scenario("mine", _mined, ("mine", "run", "-n", 9, "--out", "mined.csv")),
        Scenario("fold", _new_facts, ("fold", "run", "new.tsv", "-o", "folded"), rerun_refused="folded/result.json"),
        Scenario("ask", _finished, ("ask", "run", "e1", "r1", "?", "--json"), answers=True),
        Scenario(
            "tune",
            _graph,
            (*tune, "--storage", "sqlite:///tune.db", "-o", "best.toml"),
            halfway=_of_a_search,
            drawn=("tune.db", "best.toml"),
            thin=8,
        ),
        Scenario(
            "map",
            _finished,
            ("run",),
            call="tests.stress.scenarios:show_map",
            optional=("run/map-pca-best.npz",),
            answers=True,
        ),
        Scenario(
            "shards",
            lambda _, __: None,
            ("checkpoint",),
            call="tests.stress.scenarios:shards",
            halfway=_of_several_processes,
        ),
    ]
