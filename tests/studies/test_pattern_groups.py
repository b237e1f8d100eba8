"""patterns.json: a changed number is detected, and files without a checksum are still read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.studies.small import small_study

from conjoin.errors import RunError
from conjoin.studies.pattern_groups import pattern_groups, patterns_file

pytest.importorskip("scipy", reason="relation patterns need SciPy: pip install 'conjoin[study]'")


def test_a_changed_number_in_patterns_json_raises(tmp_path: Path) -> None:
    study, root = small_study(tmp_path), tmp_path / "results"
    assert pattern_groups(study, "own", root) is not None
    file = patterns_file(study, "own", root)
    told = json.loads(file.read_text(encoding="utf-8"))
    changed = {**told, "rules": {**told["rules"], "inverse": told["rules"]["inverse"] + 1}}
    file.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(RunError, match=r"patterns\.json"):
        pattern_groups(study, "own", root)
    del changed["sha256"]
    file.write_text(json.dumps(changed), encoding="utf-8")
    kept = pattern_groups(study, "own", root)
    assert kept is not None
    assert kept.rules["inverse"] == changed["rules"]["inverse"]
