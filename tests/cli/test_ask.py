"""ask, score, similar, export: names and labels, in and out."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.commands import LANDS, TINY, assert_refused, conjoin, little_graph, write_lines

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


def test_ask_predicts_heads_relations_and_tails(trained: Path) -> None:
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


def test_ask_only_new_excludes_known_answers(trained: Path) -> None:
    answers = conjoin("ask", trained, "France", "borders", "--only-new", "-k", 99, "--json").json["answers"]
    assert len(answers) == 13
    assert "France" not in {answer["label"] for answer in answers}
    assert not any(answer["known"] for answer in answers)


def test_ask_answers_a_file_of_questions(trained: Path, tmp_path: Path) -> None:
    questions = [("France", "borders", "?"), ("?", "P2", "C1"), ("Q0", "?", "Spain")]
    file = write_lines(tmp_path / "q.tsv", questions)
    report = conjoin("ask", trained, "--file", file, "-k", 2, "--json").json
    for question, answered in zip(questions, report["questions"], strict=True):
        alone = conjoin("ask", trained, *question, "-k", 2, "--json").json
        assert {"run": str(trained), **answered} == alone
    out = conjoin("ask", trained, "--file", file, "-k", 2).out
    assert "France  borders  ?" in out
    assert "?  P2  C1" in out


def test_ask_ranks_given_candidates(trained: Path) -> None:
    words = ("ask", trained, "France", "borders", "-k", 99, "--json")
    chosen = conjoin(*words, "--candidate", "Spain", "--candidate", "Q2").json["answers"]
    assert {answer["label"] for answer in chosen} == {"Spain", "Portugal"}
    capitals = conjoin(*words, "--type", "*", "has capital", "?").json["answers"]
    assert {answer["entity"] for answer in capitals} == {f"C{number}" for number in range(len(LANDS))}
    one = conjoin(*words, "--type", "?", "P2", "capital of Spain").json["answers"]
    assert [answer["label"] for answer in one] == ["Spain"]


def test_ask_compares_two_runs(trained: Path, tmp_path: Path) -> None:
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
    assert_refused(conjoin(*words, "--explain"), "--explain", "--compare")


def test_ask_explains_its_answers(trained: Path) -> None:
    words = ("ask", trained, "France", "borders", "-k", 6, "--explain")
    reasons = conjoin(*words, "--json").json["explanations"]
    assert 0 < len(reasons) <= 3
    assert all(reason["head"] == "Q0" and reason["relation"] == "P1" for reason in reasons)
    shown = conjoin(*words)
    assert reasons[0]["label"] in shown.out
    assert "conjoin explain" not in shown.err
    known = conjoin("ask", trained, "France", "borders", "--candidate", "Spain", "--explain")
    assert "conjoin explain" in known.err


def test_ask_finds_labels_and_misspelt_names(trained: Path) -> None:
    found = conjoin("find", trained, "frnace", "--json").json["found"]
    assert (found[0]["name"], found[0]["label"]) == ("Q0", "France")
    assert [match["name"] for match in conjoin("find", trained, "cap", "--relations", "--json").json["found"]] == ["P2"]
    assert "Portugal" in conjoin("find", trained, "port").out


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["Frnace", "borders", "?"], ["'Frnace'", "France"]),
        (["Atlantis?", "borders"], ["'Atlantis?'", "conjoin find RUN 'Atlantis?'"]),
        (["--", "-x", "borders"], ["'-x'", "conjoin find RUN -- -x"]),
        (["France", "loves"], ["'loves'", "borders"]),
        (["France", "brders"], ["'brders'", "borders"]),
        (["?", "borders", "?"], ["2"]),
        (["France", "borders", "Spain"], ["France borders Spain", "conjoin score"]),
        (["France"], ["conjoin ask RUN France"]),
        ([], ["--file", "conjoin ask RUN"]),
        (["France", "borders", "-k", "0"], ["0"]),
        (["--file", "nowhere.tsv"], ["nowhere.tsv"]),
        (["France", "borders", "--file", "q.tsv"], ["--file"]),
        (["France", "borders", "--weights", "bset"], ["'bset'", "best"]),
        (["France", "borders", "--candidate", "Spian"], ["'Spian'", "Spain"]),
        (["France", "borders", "--candidate", "Spain", "--type", "*", "P1", "?"], ["--candidate", "--type"]),
        (["France", "borders", "--type", "France", "P1", "Spain"], ["'?'"]),
        (["France", "borders", "--type", "?", "P2", "Spain"], ["? P2 Spain"]),
        (["France", "borders", "--min-probability", "0.5"], ["conjoin calibrate"]),
        (["France", "borders", "--compare", "nowhere"], ["nowhere"]),
    ],
)
def test_wrong_question_is_refused(trained: Path, words: list[str], values: list[str]) -> None:
    assert_refused(conjoin("ask", "--json", trained, *words), *values)


def test_the_score_of_one_fact(trained: Path) -> None:
    scored = conjoin("score", trained, "France", "borders", "Q1", "--json")
    assert scored.code == 0, scored.err
    [line] = scored.json["scores"]
    assert line["label"] == "France borders Spain"
    assert_refused(conjoin("score", trained, "France", "borders", "Spian"), "'Spian'", "Spain")
    assert_refused(conjoin("score", trained, "France", "borders"), "France borders", "HEAD RELATION TAIL")


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
    assert_refused(conjoin(*words), "f.csv:4: ")
    skipped = conjoin(*words, "--on-error", "skip", "--json")
    assert len(skipped.json["scores"]) == 1
    assert "f.csv: 1 " in skipped.err
    assert "f.csv:4: " in skipped.err


def test_names_without_training_facts_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    write_lines(folder / "train.tsv", [(f"e{i}", "r", f"e{(i + 1) % 6}") for i in range(6)])
    write_lines(folder / "test.tsv", [("e1", "rNEW", "e2"), ("e1", "r", "eNEW")])
    trained = conjoin("train", folder, *TINY, "-o", tmp_path / "run")
    assert "own: 2 " in trained.err
    asked = conjoin("ask", tmp_path / "run", "e1", "rNEW", "?", "-k", 7, "--json")
    assert asked.json["untrained"] == ["rNEW", "eNEW"]
    assert "rNEW, eNEW" in asked.err
    plain = conjoin("ask", tmp_path / "run", "e1", "r", "?", "--candidate", "e2", "--json")
    assert (plain.json["untrained"], plain.err) == ([], "")
    assert "rNEW" in conjoin("ask", tmp_path / "run", "e1", "?", "e2").err
    facts = write_lines(tmp_path / "f.tsv", [("e1", "r", "e2"), ("eNEW", "r", "e2")])
    scored = conjoin("score", tmp_path / "run", facts, "--json")
    assert "eNEW" in scored.err
    assert scored.json["untrained"] == ["eNEW"]
    compared = conjoin("ask", tmp_path / "run", "e1", "rNEW", "?", "--compare", tmp_path / "run", "-k", 7, "--json")
    assert compared.json["untrained"] == ["eNEW", "rNEW"]
    assert "eNEW" in compared.err


def test_answers_with_one_label_show_their_names(tmp_path: Path) -> None:
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
    assert_refused(conjoin("ask", tmp_path / "run", "Land", "P1", "?"), "Land", "Q0, Q1")
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
    assert_refused(stopped, f"{facts}: 3 of 4", "France", "--on-error skip")
    for line, expected in {2: ["'Frence'", "'nobody'"], 3: ["'touches'"]}.items():
        parts = stopped.err.split(f"{facts}:{line}: ")[1:]
        assert len(parts) == len(expected)
        assert all(name in part for name, part in zip(expected, parts, strict=True))
    skipped = conjoin("score", trained, facts, "--on-error", "skip", "--json")
    assert len(skipped.json["scores"]) == 1
    names = [("'Frence'", "'nobody'"), ("'touches'",), ("'Frence'",)]
    for line, (reason, bad) in enumerate(zip(skipped.json["skipped"], names, strict=True), start=2):
        assert reason.startswith(f"{facts}:{line}: ")
        assert all(name in reason for name in bad)
    assert f"{facts}: " in skipped.err
    assert "3 of 4" in skipped.err
    hopeless = conjoin("score", trained, write_lines(tmp_path / "d.tsv", [UNKNOWN[2]]), "--on-error", "skip")
    assert_refused(hopeless, "'touches'")
    assert "--on-error" not in hopeless.err
    open_question = write_lines(tmp_path / "d.tsv", [("France", "borders", "?")])
    assert_refused(conjoin("score", trained, open_question), "d.tsv:1: ", "'?'")


def test_unanswerable_questions_of_a_file_are_reported(trained: Path, tmp_path: Path) -> None:
    questions = [("France", "borders", "?"), ("?", "borders", "nobody"), ("?", "borders", "?")]
    file = tmp_path / "q.csv"
    file.write_text("\n".join(",".join(question) for question in questions), encoding="utf-8")
    assert_refused(conjoin("ask", trained, "--file", file), "q.csv:3: ", "? borders ?")
    skipped = conjoin("ask", trained, "--file", file, "--on-error", "skip", "--json")
    assert [report["question"]["head"] for report in skipped.json["questions"]] == ["France"]
    unasked, unknown = skipped.json["skipped"]
    assert unasked.startswith(f"{file}:3: ")
    assert unasked.endswith("? borders ?")
    assert unknown.startswith(f"{file}:2: ")
    assert "'nobody'" in unknown
    write_lines(file, [["tail,head,relation"], ["?,France,borders"], ["France,nobody,?"]])
    stopped = conjoin("ask", trained, "--file", file)
    assert_refused(stopped, "q.csv:3: ", "'nobody'", "line 1")


def test_similar_lists_the_nearest_entities(trained: Path) -> None:
    report = conjoin("similar", trained, "France", "-k", 2, "--json").json
    assert report["entity"] == "France"
    assert len(report["similar"]) == 2
    assert {"entity", "label", "score", "linked"} == set(report["similar"][0])
    assert [line["linked"] for line in report["similar"]] == [a.known for a in library.open(trained).similar("Q0", 2)]
    table = conjoin("similar", trained, "Q0", "-k", 15).out
    assert "Q0" in table
    assert "Spain" in table
    assert conjoin("similar", trained, "Frnace").code == 2
    assert_refused(conjoin("similar", trained, "France", "-k", 0), "0")


@pytest.mark.parametrize(
    ("format", "files"),
    [
        ("safetensors", {"run.json", "result.json", "model.safetensors", "graph", "README.md"}),
        ("parquet", {"entities.parquet", "relations.parquet"}),
        ("word2vec", {"entities.txt", "relations.txt"}),
    ],
)
def test_export_writes_a_bundle(trained: Path, tmp_path: Path, format: str, files: set[str]) -> None:
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


def test_export_refuses_invalid_options(trained: Path, tmp_path: Path) -> None:
    assert_refused(conjoin("export", trained, "-o", tmp_path, "--format", "parqet"), "'parqet'", "parquet")
    assert_refused(conjoin("export", trained, "-o", trained), trained)
    assert conjoin("export", trained).code == 2
