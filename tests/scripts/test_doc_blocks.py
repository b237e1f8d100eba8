"""How the blocks of a page are found, and how its reader is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import doc_blocks, doc_running

ROOT = Path(__file__).resolve().parents[2]

PAGE = """# A page
<!-- before: printf 'a\\n' > made.txt -->
```sh
cat made.txt          # a comment
```

<!-- output -->
```text
a
```

<!-- slow: takes a while -->
```python
x = 2
```

```python
print(x)
```

<!-- parse: needs a card -->
```sh
conjoin train atlas --device cuda
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    return tmp_path / "page.md"


def test_blocks_have_their_declared_action(page: Path) -> None:
    found = [(block.language, block.action) for block in doc_blocks.blocks(page)]
    expected = ["sh run", "sh run", "text output", "python slow", "python run", "sh parse"]
    assert [" ".join(block) for block in found] == expected


def test_page_can_be_marked_as_parse_only(page: Path) -> None:
    page.write_text(f"<!-- parse page: another script runs it -->\n{PAGE}", encoding="utf-8")
    assert "run" not in {block.action for block in doc_blocks.blocks(page)}


def test_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    seen = [(block.body, printed) for block, printed in doc_running.follow(page, folder, actions={"run", "slow"})]
    assert seen == [("a\n", "a")]


def test_skipped_block_makes_later_blocks_fail(page: Path, tmp_path: Path) -> None:
    with pytest.raises(doc_running.Failed, match=r"page.md:\d+: NameError: name 'x'"):
        list(doc_running.follow(page, tmp_path, actions={"run"}))


def test_failing_command_stops_the_page(page: Path, tmp_path: Path) -> None:
    page.write_text("```sh\nconjoin inspect nowhere.tsv\n```\n", encoding="utf-8")
    with pytest.raises(doc_running.Failed, match="ended with 2"):
        list(doc_running.follow(page, tmp_path, actions={"run"}))


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("conjoin ask RUN France borders '?'   # why", [["conjoin", "ask", "RUN", "France", "borders", "?"]]),
        ("for f in a b; do conjoin train $f > /dev/null; done", [["conjoin", "train", "$f"]]),
        ("cat x 2>&1 | grep y", [["cat", "x"], ["grep", "y"]]),
        ("A=1 conjoin forms && make test", [["conjoin", "forms"], ["make", "test"]]),
        ("conjoin rank \\\n  RUN", [["conjoin", "rank", "RUN"]]),
    ],
)
def test_shell_blocks_are_split_into_commands(shell: str, expected: list[list[str]]) -> None:
    assert list(doc_blocks.commands(shell)) == expected


def test_program_behind_launchers_is_found() -> None:
    assert doc_blocks.program_words(["torchrun", "--nnodes", "2", "-m", "conjoin", "rank", "RUN"]) == ["rank", "RUN"]
    assert doc_blocks.program_words([".venv/bin/conjoin", "forms"]) == ["forms"]
    assert doc_blocks.program_words(["python", "-m", "http.server"]) is None
