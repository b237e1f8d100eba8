"""A process killed while its run finishes, and runs that resume with another thread count."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tests.cli.commands import TINY, conjoin
from tests.runs.test_execute import GRAPH, RUN, PowerCut, outcome, stopping_after

from conjoin.errors import RunError
from conjoin.predict.predictor import open_run
from conjoin.runs.execute import ExecutionOptions, execute
from conjoin.runs.folder import RunFolder
from conjoin.runtime.atomic_files import read_sealed, write_sealed
from conjoin.runtime.file_locks import taken
from conjoin.studies.parse import read_study
from conjoin.studies.status import cell_status
from conjoin.studies.worker import WorkerOptions, run_cells

KILL = """
import os, signal, sys
from pathlib import Path
file = sys.argv.pop(1)
named = False
def hook(event, words):
    # An audit event comes before its action: at the next event the file is in place.
    global named
    if named and event == "open":  # of the folder, to sync it
        os.kill(os.getpid(), signal.SIGKILL)
    if event == "os.rename" and Path(os.fsdecode(words[1])).name == file:
        named = True
sys.addaudithook(hook)
from conjoin.cli import main
main()
"""


def killed(folder: Path, lands: Path, file: str) -> RunFolder:
    """A run whose process was killed right after that file came to its place."""
    words = ["train", str(lands), *TINY, "--device", "cpu", "-o", str(folder)]
    done = subprocess.run([sys.executable, "-c", KILL, file, *words], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return RunFolder(folder)


@pytest.fixture(scope="module")
def just_finished(tmp_path_factory: pytest.TempPathFactory, lands: Path) -> RunFolder:
    """Killed between the rename of result.json and the end: finished, with a checkpoint that nobody needs."""
    folder = killed(tmp_path_factory.mktemp("killed") / "run", lands, "result.json")
    assert folder.finished
    assert folder.checkpoint_file.exists()
    return folder


@pytest.fixture
def left(tmp_path: Path, just_finished: RunFolder) -> RunFolder:
    """A copy of it, with what several processes would have left as well."""
    folder = RunFolder(shutil.copytree(just_finished.path, tmp_path / "run"))
    folder.shards_folder.joinpath("000003").mkdir(parents=True)
    return folder


def test_readers_ignore_the_checkpoint_of_a_finished_run(left: RunFolder) -> None:
    before = sorted(left.path.rglob("*"))
    assert left.result["epochs"] == 3
    assert open_run(left.path).graph.n_entities
    assert conjoin("rank", left.path, "--json").json["split"] == "test"
    assert sorted(left.path.rglob("*")) == before


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_the_next_training_removes_the_checkpoint_of_a_finished_run(
    left: RunFolder, lands: Path, resume: tuple[str, ...]
) -> None:
    again = conjoin("train", lands, *TINY, "--device", "cpu", "-o", left.path, "--json", *resume)
    assert again.json["epochs"] == 3
    assert not left.half_done
    assert [file.name for file in left.path.glob(".*")] == [".lock"]


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory, lands: Path) -> RunFolder:
    """Killed once the ranks were written, before the result. Not to be changed."""
    return killed(tmp_path_factory.mktemp("half") / "run", lands, "ranks-test.parquet")


def test_a_run_killed_before_its_result_resumes(half: RunFolder, tmp_path: Path, lands: Path) -> None:
    assert not half.finished
    folder = RunFolder(shutil.copytree(half.path, tmp_path / "run"))
    assert conjoin("train", lands, *TINY, "--device", "cpu", "-o", folder.path, "--resume").code == 0
    assert not folder.half_done


@pytest.fixture
def finished(tmp_path: Path) -> RunFolder:
    """A finished run with a checkpoint, made in this process."""
    folder = execute(RUN, GRAPH, tmp_path / "run")
    folder.checkpoint_file.write_bytes(b"left behind")
    return folder


def test_a_finished_run_keeps_its_checkpoint_while_another_process_holds_the_lock(finished: RunFolder) -> None:
    with taken(finished.lock_file):
        assert execute(RUN, GRAPH, finished.path).finished
        assert finished.half_done
    finished.clear()
    assert not finished.half_done


def test_an_invalid_result_keeps_its_checkpoint(finished: RunFolder) -> None:
    write_sealed(finished.result_file, {"files": "none"})
    finished.clear()
    with pytest.raises(RunError), finished.locked():
        raise RunError("it cannot be used")
    assert finished.half_done


def test_a_study_removes_the_checkpoints_of_its_finished_runs(tmp_path: Path, lands: Path) -> None:
    file, root = tmp_path / "small.toml", tmp_path / "results"
    settings = "complex = { rank = 4, epochs = 2, batch = 16 }"
    rows = 'rows = [{ name = "complex", form = "complex" }]'
    file.write_text(f'name = "s"\nseeds = 1\n{rows}\n[datasets.l]\ngraph = "{lands}"\n[settings.l]\n{settings}\n')
    study = read_study(file)
    (done,) = run_cells(study, study.cells(), root, means=WorkerOptions())
    done.folder.checkpoint_file.write_bytes(b"left behind")
    assert cell_status(study.cells()[0], root).state == "done"
    assert done.folder.half_done, "looking changes nothing"
    list(run_cells(study, study.cells(), root, means=WorkerOptions()))
    assert not done.folder.half_done


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_only_another_thread_count_is_noted_on_resume(tmp_path: Path) -> None:
    before, said = torch.get_num_threads(), list[str]()
    whole = execute(RUN, GRAPH, tmp_path / "whole")
    for number, expected in ((before, 0), (before + 1, 1)):
        folder = tmp_path / str(number)
        with pytest.raises(PowerCut):
            execute(RUN, GRAPH, folder, conduct=stopping_after(3))
        with threads(number):
            resumed = execute(RUN, GRAPH, folder, conduct=ExecutionOptions(note=said.append))
        assert len(said) == expected
        assert outcome(resumed)["result"]["epochs"] == outcome(whole)["result"]["epochs"]
    assert f"{before}" in said[0]
    assert f"{before + 1}" in said[0]


def test_a_library_warns_about_another_thread_count(tmp_path: Path) -> None:
    with pytest.raises(PowerCut):
        execute(RUN, GRAPH, tmp_path / "run", conduct=stopping_after(3))
    before = torch.get_num_threads()
    with threads(before + 1), pytest.warns(UserWarning, match=f"threads.*{before + 1}"):
        execute(RUN, GRAPH, tmp_path / "run")


def test_another_thread_count_is_noted_on_standard_error(half: RunFolder, lands: Path, tmp_path: Path) -> None:
    used = read_sealed(half.settings_file)["environment"]["threads"]
    for number in (used, used + 1):
        copy = shutil.copytree(half.path, tmp_path / str(number))
        with threads(number):
            resumed = conjoin("train", lands, *TINY, "--device", "cpu", "-o", copy, "--resume")
        assert resumed.code == 0, resumed.err
        assert ("threads" in resumed.err) is (number != used)
