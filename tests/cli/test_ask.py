"""ask, score, similar, export: names and labels, in and out."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.commands import LANDS, TINY, conjoin, little_graph, write_lines

import conjoin as library


@pytest.mark.parametrize("head", ["Q0", "France", "france"])
@pytest.mark.parametrize("relation", ["P1", "borders"])
def test_the_json_of_ask(trained: Path, head: str, relation: str) -> None:
    report = conjoin("ask", trained, head, relation, "?", "-k", 3, "--json").json
    assert set(report) == {"run", "question", "answers", "untrained"}
    assert report["question"] == {"head": head, "relation": relation, "tail": "?"}
    assert len(report["answers"]) == 3
    for answer in report["answers"]:
        assert set(answer) == {"entity", "label", "score", "known", "probability"}
        assert answer["probability"] is None
        assert answer["label"] in LANDS or answer["label"].startswith("capital of ")
        assert isinstance(answer["score"], float)
        assert isinstance(answer["known"], bool)
    assert [a["score"] for a in report["answers"]] == sorted((a["score"] for a in report["answers"]), reverse=True)


def test_all_three_unknowns(trained: Path) -> None:
    tails = conjoin("ask", trained, "France", "borders", "--json", "-k", 99).json["answers"]
    heads = conjoin("ask", trained, "?", "has capital", "capital of Spain", "--json", "-k", 99).json["answers"]
    relations = conjoin("ask", trained, "France", "?", "Spain", "--json").json["answers"]
    assert {answer["label"] for answer in tails if answer["known"]} == {"Spain", "Germany"}
    assert {answer["label"] for answer in heads if answer["known"]} == {"Spain"}
    assert {(answer["entity"], answer["label"], answer["known"]) for answer in relations} == {
        ("P1", "borders", True),
        ("P2", "has capital", False),
    }


def test_answers_as_a_table_show_labels(trained: Path) -> None:
    out = conjoin("ask", trained, "Q0", "P1", "?", "-k", 16).out
    assert all(land in out for land in LANDS[1:])
    assert "known" in out
    assert "new" in out
    assert "Q1" not in out


def test_only_new(trained: Path) -> None:
    answers = conjoin("ask", trained, "France", "borders", "--only-new", "-k", 99, "--json").json["answers"]
    assert len(answers) == 13
    assert "France" not in {answer["label"] for answer in answers}
    assert not any(answer["known"] for answer in answers)


def test_a_file_of_questions(trained: Path, tmp_path: Path) -> None:
    questions = [("France", "borders", "?"), ("?", "P2", "C1"), ("Q0", "?", "Spain")]
    file = write_lines(tmp_path / "q.tsv", questions)
    report = conjoin("ask", trained, "--file", file, "-k", 2, "--json").json
    for question, answered in zip(questions, report["questions"], strict=True):
        alone = conjoin("ask", trained, *question, "-k", 2, "--json").json
        assert {"run": str(trained), **answered} == alone
    out = conjoin("ask", trained, "--file", file, "-k", 2).out
    assert "France  borders  ?" in out
    assert "?  P2  C1" in out


def test_answers_among_candidates(trained: Path) -> None:
    words = ("ask", trained, "France", "borders", "-k", 99, "--json")
    chosen = conjoin(*words, "--candidate", "Spain", "--candidate", "Q2").json["answers"]
    assert {answer["label"] for answer in chosen} == {"Spain", "Portugal"}
    capitals = conjoin(*words, "--type", "*", "has capital", "?").json["answers"]
    assert {answer["entity"] for answer in capitals} == {f"C{number}" for number in range(len(LANDS))}
    one = conjoin(*words, "--type", "?", "P2", "capital of Spain").json["answers"]
    assert [answer["label"] for answer in one] == ["Spain"]


def test_two_runs_beside_each_other(trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert conjoin("export", trained, "-o", other).code == 0
    words = ("ask", trained, "France", "borders", "-k", 3, "--compare", other)
    report = conjoin(*words, "--json").json
    assert report["runs"] == [str(trained), str(other)]
    assert [answer["places"][0]["rank"] for answer in report["answers"]] == [1, 2, 3]
    for answer in report["answers"]:
        assert answer["places"][0] == answer["places"][1]
    table = conjoin(*words).out
    assert "rank, trained" in table
    assert "rank, other" in table
    file = write_lines(tmp_path / "q.tsv", [("France", "borders", "?")])
    assert conjoin("ask", trained, "--file", file, "-k", 3, "--compare", other, "--json").json == {
        "questions": [report],
        "skipped": [],
    }
    assert "leave out --explain" in conjoin(*words, "--explain").err


def test_why(trained: Path) -> None:
    words = ("ask", trained, "France", "borders", "-k", 6, "--explain")
    reasons = conjoin(*words, "--json").json["explanations"]
    assert 0 < len(reasons) <= 3
    assert all(reason["head"] == "Q0" and reason["relation"] == "P1" for reason in reasons)
    assert "Why France borders" in conjoin(*words).out
    assert "all of these are known" not in conjoin(*words).err
    known = conjoin("ask", trained, "France", "borders", "--candidate", "Spain", "--explain")
    assert "all of these are known; conjoin explain says why" in known.err


def test_names_are_found(trained: Path) -> None:
    found = conjoin("find", trained, "frnace", "--json").json["found"]
    assert (found[0]["name"], found[0]["label"]) == ("Q0", "France")
    assert [match["name"] for match in conjoin("find", trained, "cap", "--relations", "--json").json["found"]] == ["P2"]
    assert "Portugal" in conjoin("find", trained, "port").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Frnace", "borders", "?"], "unknown entity 'Frnace'. Did you mean France?"),
        (["Atlantis?", "borders"], "unknown entity 'Atlantis?'. `conjoin find RUN 'Atlantis?'` finds"),
        (["--", "-x", "borders"], "unknown entity '-x'. `conjoin find RUN -- -x` finds"),
        (["France", "loves"], "unknown relation 'loves'. There are borders, "),
        (["France", "brders"], "unknown relation 'brders'. Did you mean borders?"),
        (["?", "borders", "?"], "exactly one unknown, this one has 2"),
        (["France", "borders", "Spain"], "this is a whole fact, without '?': conjoin score RUN"),
        (["France"], "a question has three parts, one of them '?'"),
        ([], "give one question"),
        (["France", "borders", "-k", "0"], "k = 0 is too small"),
        (["--file", "nowhere.tsv"], "nowhere.tsv: there is no such file"),
        (["France", "borders", "--file", "q.tsv"], "give one question"),
        (["France", "borders", "--weights", "bset"], "Did you mean best?"),
        (["France", "borders", "--candidate", "Spian"], "unknown entity 'Spian'. Did you mean Spain?"),
        (["France", "borders", "--candidate", "Spain", "--type", "*", "P1", "?"], "--candidate names or a --type"),
        (["France", "borders", "--type", "France", "P1", "Spain"], "a type has one '?'"),
        (["France", "borders", "--type", "?", "P2", "Spain"], "no training fact is like ? P2 Spain"),
        (["France", "borders", "--min-probability", "0.5"], "have no probability yet: conjoin calibrate"),
        (["France", "borders", "--compare", "nowhere"], "there is no run folder nowhere"),
    ],
)
def test_questions_asked_wrongly(trained: Path, words: list[str], message: str) -> None:
    ran = conjoin("ask", "--json", trained, *words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_the_score_of_one_fact(trained: Path) -> None:
    scored = conjoin("score", trained, "France", "borders", "Q1", "--json")
    assert scored.code == 0, scored.err
    [line] = scored.json["scores"]
    assert line["label"] == "France borders Spain"
    misspelt = conjoin("score", trained, "France", "borders", "Spian")
    assert (misspelt.code, "Did you mean Spain" in misspelt.err) == (2, True)
    two = conjoin("score", trained, "France", "borders")
    assert (two.code, "HEAD RELATION TAIL" in two.err) == (2, True)


def test_scores_of_given_facts(trained: Path, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", [["France,borders,Spain"], ["Q0,P2,C3"]])
    report = conjoin("score", trained, file, "--json").json
    assert report["run"] == str(trained)
    first, second = report["scores"]
    assert (first["head"], first["relation"], first["tail"]) == ("Q0", "P1", "Q1")
    assert first["label"] == "France borders Spain"
    assert (first["known"], second["known"]) == (True, False)
    lines = conjoin("score", trained, file).out.splitlines()
    assert lines[0] == "head\trelation\ttail\tscore\trank\tknown\tprobability\tlabel"
    assert lines[1].split("\t")[:3] == ["Q0", "P1", "Q1"]
    assert lines[2].split("\t")[5:] == ["false", "", "France has capital capital of Italy"]
    assert float(lines[1].split("\t")[3]) == pytest.approx(first["score"], rel=1e-5)


def test_scoring_reads_any_format_and_reports_bad_lines(trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("object;when;subject;verb\nSpain;1;France;borders\n\nSpain;2\n", encoding="utf-8")
    words = ("score", trained, file, "--columns", "subject,verb,object", "--delimiter", ";")
    stopped = conjoin(*words)
    assert stopped.code == 2
    assert "f.csv:4: wrong number of columns" in stopped.err
    skipped = conjoin(*words, "--on-error", "skip", "--json")
    assert len(skipped.json["scores"]) == 1
    assert "f.csv: 1 bad lines skipped (wrong number of columns 1)" in skipped.err


def test_what_was_never_trained_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    write_lines(folder / "train.tsv", [(f"e{i}", "r", f"e{(i + 1) % 6}") for i in range(6)])
    write_lines(folder / "test.tsv", [("e1", "rNEW", "e2"), ("e1", "r", "eNEW")])
    trained = conjoin("train", folder, *TINY, "-o", tmp_path / "run")
    assert "own: 2 names, 1 of them relations, occur in no training fact" in trained.err
    asked = conjoin("ask", tmp_path / "run", "e1", "rNEW", "?", "-k", 7, "--json")
    assert asked.json["untrained"] == ["rNEW", "eNEW"]
    said = "as no training fact has them"
    assert f"2 names in question and answers, {said}: rNEW, eNEW" in asked.err
    plain = conjoin("ask", tmp_path / "run", "e1", "r", "?", "--candidate", "e2", "--json")
    assert (plain.json["untrained"], plain.err) == ([], "")
    assert f"1 name in question and answers, {said}: rNEW" in conjoin("ask", tmp_path / "run", "e1", "?", "e2").err
    facts = write_lines(tmp_path / "f.tsv", [("e1", "r", "e2"), ("eNEW", "r", "e2")])
    scored = conjoin("score", tmp_path / "run", facts, "--json")
    assert f"1 name in these facts, {said}: eNEW" in scored.err
    assert scored.json["untrained"] == ["eNEW"]
    compared = conjoin("ask", tmp_path / "run", "e1", "rNEW", "?", "--compare", tmp_path / "run", "-k", 7, "--json")
    assert compared.json["untrained"] == ["eNEW", "rNEW"]
    assert f"2 names in question and answers, {said}" in compared.err


def test_answers_with_one_label_are_told_apart(tmp_path: Path) -> None:
    folder = little_graph(tmp_path / "lands")
    write_lines(folder / "entity_labels.tsv", [("Q0", "Land"), ("Q1", "Land"), ("Q2", "Portugal")])
    conjoin("train", folder, *TINY, "-o", tmp_path / "run")
    out = conjoin("ask", tmp_path / "run", "Q2", "borders", "?", "-k", 99).out
    assert "Land (Q0)" in out
    assert "Land (Q1)" in out
    assert "Portugal (" not in out
    alone = conjoin("ask", tmp_path / "run", "Land (Q1)", "borders", "?", "-k", 99, "--json").json["answers"]
    assert {answer["label"] for answer in alone if answer["known"]} == {"Land (Q0)", "Portugal"}
    assert {(answer["entity"], answer["label"]) for answer in alone} >= {("Q0", "Land (Q0)"), ("Q3", "Q3")}
    assert "2 have that label: use one of the names Q0, Q1" in conjoin("ask", tmp_path / "run", "Land", "P1", "?").err
    assert "Land (Q" in conjoin("mine", tmp_path / "run", "-n", 99).out
    assert "Land (Q0)" in conjoin("explain", tmp_path / "run", "Q0", "borders", "Q2").out
    conjoin("export", tmp_path / "run", "-o", tmp_path / "tables", "--format", "parquet")
    assert pq.read_table(tmp_path / "tables/entities.parquet").column("label").to_pylist().count("Land") == 2


UNKNOWN = [
    ("France", "borders", "Spain"),
    ("Frence", "borders", "nobody"),
    ("Q0", "touches", "Q1"),
    ("Frence", "P1", "Q1"),
]


def test_unknown_names_are_counted_with_their_places(trained: Path, tmp_path: Path) -> None:
    facts = write_lines(tmp_path / "c.tsv", UNKNOWN)
    stopped = conjoin("score", trained, facts)
    assert (stopped.code, stopped.out) == (2, "")
    assert f"{facts}: 3 of 4 facts cannot be used: 3 unknown in all." in stopped.err
    assert f"{facts}:2: unknown entity 'Frence'. Did you mean France?" in stopped.err
    assert f"{facts}:2: unknown entity 'nobody'." in stopped.err
    assert f"{facts}:3: unknown relation 'touches'." in stopped.err
    assert "--on-error skip" in stopped.err
    skipped = conjoin("score", trained, facts, "--on-error", "skip", "--json")
    assert len(skipped.json["scores"]) == 1
    assert skipped.json["skipped"] == [
        f"{facts}:2: unknown entity 'Frence', unknown entity 'nobody'",
        f"{facts}:3: unknown relation 'touches'",
        f"{facts}:4: unknown entity 'Frence'",
    ]
    assert f"{facts}: skipped 3 of 4 facts" in skipped.err
    hopeless = conjoin("score", trained, write_lines(tmp_path / "d.tsv", [UNKNOWN[2]]), "--on-error", "skip")
    assert hopeless.code == 2
    assert "--on-error" not in hopeless.err
    assert (
        "d.tsv:1: unknown entity '?'"
        in conjoin("score", trained, write_lines(tmp_path / "d.tsv", [("France", "borders", "?")])).err
    )


def test_questions_of_a_file_that_cannot_be_asked(trained: Path, tmp_path: Path) -> None:
    questions = [("France", "borders", "?"), ("?", "borders", "nobody"), ("?", "borders", "?")]
    file = tmp_path / "q.csv"
    file.write_text("\n".join(",".join(question) for question in questions), encoding="utf-8")
    assert "q.csv:3: not exactly one '?'" in conjoin("ask", trained, "--file", file).err
    skipped = conjoin("ask", trained, "--file", file, "--on-error", "skip", "--json")
    assert [report["question"]["head"] for report in skipped.json["questions"]] == ["France"]
    assert skipped.json["skipped"] == [
        f"{file}:3: not exactly one '?': ? borders ?",
        f"{file}:2: unknown entity 'nobody'",
    ]
    write_lines(file, [["tail,head,relation"], ["?,France,borders"], ["France,nobody,?"]])
    stopped = conjoin("ask", trained, "--file", file)
    assert "q.csv:3: unknown entity 'nobody'" in stopped.err
    assert "line 1 read as a header" in stopped.err


def test_similar(trained: Path) -> None:
    report = conjoin("similar", trained, "France", "-k", 2, "--json").json
    assert report["entity"] == "France"
    assert len(report["similar"]) == 2
    assert {"entity", "label", "score", "linked"} == set(report["similar"][0])
    assert [line["linked"] for line in report["similar"]] == [a.known for a in library.open(trained).similar("Q0", 2)]
    table = conjoin("similar", trained, "Q0", "-k", 15).out
    assert "similar to Q0" in table
    assert "Spain" in table
    assert conjoin("similar", trained, "Frnace").code == 2
    assert "at least one" in conjoin("similar", trained, "France", "-k", 0).err


@pytest.mark.parametrize(
    ("format", "files"),
    [
        ("safetensors", {"run.json", "result.json", "model.safetensors", "graph", "README.md"}),
        ("parquet", {"entities.parquet", "relations.parquet"}),
        ("word2vec", {"entities.txt", "relations.txt"}),
    ],
)
def test_export(trained: Path, tmp_path: Path, format: str, files: set[str]) -> None:
    report = conjoin("export", trained, "-o", tmp_path / "out", "--format", format, "--json").json
    assert {Path(file).name for file in report["files"]} == files == {f.name for f in (tmp_path / "out").iterdir()}
    assert conjoin("export", trained, "-o", tmp_path / "out", "--format", format).out.count("\n") == len(files)


def test_every_verb_opens_a_bundle(trained: Path, tmp_path: Path) -> None:
    assert conjoin("export", trained, "-o", tmp_path / "b", "--weights", "best").code == 0
    for words in (["ask", "France", "borders"], ["similar", "France"]):
        verb, *rest = words
        bundled = conjoin(verb, tmp_path / "b", *rest, "--json").json
        assert bundled == {
            **conjoin(verb, trained, *rest, "--weights", "best", "--json").json,
            "run": str(tmp_path / "b"),
        }
    ranked = conjoin("rank", tmp_path / "b", "--weights", "best", "--json").json
    assert ranked["mrr"] == conjoin("rank", trained, "--weights", "best", "--json").json["mrr"]
    assert library.open(tmp_path / "b").ask("France", "borders")


def test_export_used_wrongly(trained: Path, tmp_path: Path) -> None:
    assert "Did you mean parquet?" in conjoin("export", trained, "-o", tmp_path, "--format", "parqet").err
    assert "is the run itself" in conjoin("export", trained, "-o", trained).err
    assert conjoin("export", trained).code == 2
