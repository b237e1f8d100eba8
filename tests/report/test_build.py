"""The report as files: JSON for programs, a page without a network, LaTeX that compiles, and no torch."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.report.fabricated import counted, finished, ranks_of, tiny

from conjoin.report.build import write_report
from conjoin.runtime.atomic_files import read_sealed
from conjoin.studies.parse import read_study
from conjoin.studies.spec import Study

PAPER = Path(__file__).parents[2] / "studies" / "paper.toml"


def fill(root: Path) -> Study:
    study = tiny(root)
    for row, mrrs in {"complex": (0.930, 0.932, 0.934), "tied": (0.910, 0.912, 0.911), "half": (0.9,)}.items():
        for seed, mrr in enumerate(mrrs):
            events = [{"epoch": e, "loss": 1 / e, "seconds": 1.0, "valid": {"mrr": mrr * e / 3}} for e in (1, 2, 3)]
            finished(
                root,
                study.cell("UMLS", study.rows[row], seed),
                mrr=mrr,
                seconds=1 + seed / 10,
                best_mrr=mrr,
                ranks=ranks_of([1, 2, 3, 4] if row == "complex" else [2, 2, 3, 5]),
                events=events,
            )
    counted(root, study, "UMLS", train=5_216, valid=652, test=661, entities=135, relations=46)
    return study


class Page(HTMLParser):
    """Collects tags, what they refer to, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        for key, value in attrs:
            if key in ("src", "href", "xlink:href", "srcset", "poster", "data", "action"):
                self.references.append(value or "")
            if key == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    told = write_report(fill(root), root, root / "report")
    assert told == read_sealed(root / "report" / "report.json")
    return root / "report"


@pytest.fixture(scope="module")
def whole_paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on paper.toml in which two cells of one dataset ran."""
    root = tmp_path_factory.mktemp("paper")
    study = read_study(PAPER)
    for row in ("5star", "5star-conj", "complex-half"):
        for seed in range(2):
            line = study.published["WN18RR"].get(row)
            mrr = (line.mrr if line and line.mrr else 0.47) + seed / 1000
            finished(root, study.cell("WN18RR", study.rows[row], seed), mrr=mrr, seconds=1 + seed / 50)
    write_report(study, root, root / "report")
    return root / "report"


def test_json(written: Path) -> None:
    told = json.loads((written / "report.json").read_text())
    cell = told["cells"][0]
    expected = {
        "dataset": "UMLS",
        "form": "complex",
        "options": {},
        "seeds": [0, 1, 2],
        "mrr": pytest.approx(0.932),
        "mrr_sd": pytest.approx(0.002),
        "hits1": pytest.approx(0.3),
        "hits3": pytest.approx(0.4),
        "hits10": pytest.approx(0.5),
        "seconds": pytest.approx(1.1),
        "parameters": 1_000,
        "published_mrr": 0.93,
        "difference": pytest.approx(0.002),
    }
    assert {key: cell[key] for key in expected} == expected
    assert cell["verdict"] == "reproduced within .003"
    assert cell["runs"][0]["folder"].startswith("tiny/UMLS/complex/seed-0-")
    assert [c["row"] for c in told["cells"]] == ["complex", "tied", "half"]
    tests = {(t["test"], t["measure"], t["b"]): t for t in told["tests"]}
    assert tests["welch", "mrr", "tied"]["h"] == 1
    assert tests["welch", "mrr", "tied"]["published_p"] == 1e-15
    assert tests["welch", "mrr", "half"]["p"] is None
    assert tests["paired", "mrr", "tied"]["difference"] == pytest.approx(0.1375)
    assert [check["agrees"] for check in told["printed_tests"]] == [True, False]


def test_markdown(written: Path) -> None:
    text = (written / "report.md").read_text()
    assert "# Two forms & a control" in text
    assert "| **0.932 ± 2e-3** |" in text
    assert "5★ε<sub>n</sub>" in text
    for line in text.split("\n\n"):
        if line.startswith("| "):
            assert len({row.count(" | ") for row in line.splitlines()}) == 1
    for figure in re.findall(r"\]\((.*?)\)", text):
        assert (written / figure).exists()


def test_html_is_self_contained(written: Path, whole_paper: Path) -> None:
    for folder in (written, whole_paper):
        page = Page()
        source = (folder / "report.html").read_text()
        page.feed(source)
        assert page.open == []
        assert all(reference.startswith("#") for reference in page.references)
        assert not {"script", "link", "img", "iframe"} & set(page.tags)
        assert "@import" not in source
        assert "url(http" not in source
        assert len(page.ids) == len(set(page.ids))
        assert set(page.references) <= {f"#{each}" for each in page.ids}
        assert 'name="viewport"' in source
        assert "prefers-color-scheme: dark" in source
        assert page.tags.count("svg") >= 3
    assert "Complεx" in page.text


def test_report_has_every_table_of_the_paper(whole_paper: Path) -> None:
    text = (whole_paper / "report.md").read_text()
    for dataset in ("FB15K-237", "WN18RR", "YAGO3-10", "FB15K", "WN18"):
        for title in ("Main results on", "Ablations on", "Time t-test (h, p) on", "MRR t-test (h, p) on"):
            assert f"**{title} {dataset}**" in text
    assert "65 of 65 printed p-values agree" in text
    assert "Of 43 published results 2 were run" in text


def test_report_contains_no_local_path(whole_paper: Path) -> None:
    for name in ("report.md", "report.tex", "report.html", "report.json"):
        assert str(whole_paper.parent) not in (whole_paper / name).read_text()
        assert str(PAPER.parent) not in (whole_paper / name).read_text()


@pytest.mark.parametrize("here", [True, False])
def test_a_report_without_runs(here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONJOIN_DATA", raising=False)
    monkeypatch.setenv("CONJOIN_CACHE", str(tmp_path / "cache"))
    if here:
        for split in ("train", "valid", "test"):
            file = tmp_path / "cache" / "umls" / f"{split}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("a\tr\tb\n", encoding="utf-8")
    told = write_report(tiny(tmp_path), tmp_path, tmp_path / "report")
    verdict = "not run" if here else "data not here: conjoin fetch umls"
    assert [cell["verdict"] for cell in told["cells"]] == [verdict] * 3
    assert [cell["mrr"] for cell in told["cells"]] == [None] * 3
    assert "0 of 7 runs are finished" in (tmp_path / "report" / "report.md").read_text()


def test_without_published_numbers_nothing_counts_as_reproduced(tmp_path: Path) -> None:
    study = tiny(tmp_path)
    for each, said in ((study, True), (replace(study, published={}), False)):
        write_report(each, tmp_path, tmp_path / "report")
        assert ("counts as reproduced" in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")) is said


def test_the_command_for_missing_runs_is_complete(tmp_path: Path) -> None:
    """A relative path is kept, so that the command works from the same folder; an absolute path is cut to its name."""
    study = tiny(tmp_path)
    for file, named in ((Path("studies/tiny.toml"), "studies/tiny.toml"), (study.file, "tiny.toml")):
        write_report(replace(study, file=file), tmp_path, tmp_path / "out")
        told = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
        assert f"`conjoin study run {named} --only dataset=UMLS`." in told


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    study = fill(tmp_path)
    contents = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        write_report(study, tmp_path, folder)
        contents.append({file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()})
    assert contents[0] == contents[1]
    assert len(contents[0]) == 4 + 2 * 4


def test_without_matplotlib_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = fill(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_report(study, tmp_path, tmp_path / "report")
    assert not (tmp_path / "report" / "figures").exists()
    assert "Plots are left out: plotting needs the package matplotlib" in (tmp_path / "report/report.html").read_text()


@pytest.mark.slow
def test_unreadable_runs_are_named(tmp_path: Path) -> None:
    study = fill(tmp_path)
    cell = study.cell("UMLS", study.rows["tied"], 1)
    (tmp_path / cell.folder / "result.json").write_text("{}")
    (tmp_path / study.cell("UMLS", study.rows["complex"], 0).folder / "ranks-test.parquet").write_bytes(b"PAR1")
    told = write_report(study, tmp_path, tmp_path / "report")
    run, test = told["left_out"]
    assert run.startswith("UMLS tied seed 1: ")
    assert test.startswith("UMLS complex has no paired test: ")
    shown = (tmp_path / "report" / "report.md").read_text()
    assert all(words[:16] in shown for words in (run, test))


@pytest.mark.slow
def test_reporting_never_imports_torch(tmp_path: Path) -> None:
    fill(tmp_path)
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from conjoin.report.build import write_report\nfrom conjoin.studies.parse import read_study\n"
        "root = Path(sys.argv[1])\n"
        "write_report(read_study(root / 'tiny.toml'), root, root / 'report')\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


@cache
def compiler() -> list[str] | None:
    """Plain pdflatex with booktabs, or tectonic with whatever it has or may fetch."""
    if shutil.which("pdflatex") and shutil.which("kpsewhich"):
        found = subprocess.run(["kpsewhich", "booktabs.sty"], check=False, capture_output=True)
        if found.returncode == 0:
            return ["pdflatex", "-interaction=nonstopmode", "-halt-on-error"]
    return ["tectonic", "--chatter=minimal"] if shutil.which("tectonic") else None


def test_latex_compiles(whole_paper: Path, written: Path, tmp_path: Path) -> None:
    command = compiler()
    if command is None:
        pytest.skip("no LaTeX here: apt-get install texlive-latex-base texlive-latex-recommended, or tectonic")
    for folder in (whole_paper, written):
        work = tmp_path / folder.parent.name
        shutil.copytree(folder, work)
        done = subprocess.run([*command, "report.tex"], cwd=work, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert (work / "report.pdf").read_bytes().startswith(b"%PDF")
        log = work / "report.log"
        assert not log.exists() or "Missing character" not in log.read_text(errors="replace")
