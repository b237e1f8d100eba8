"""A small run shared by all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.served import little_run


@pytest.fixture(scope="session")
def lands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return little_run(tmp_path_factory.mktemp("served"))
