"""The lock pins every package of a user's installation, with hashes, at the versions that the tests run on."""

from __future__ import annotations

import re
from pathlib import Path

from scripts import check_wheel, try_bounds, write_lock

ROOT = Path(__file__).resolve().parents[2]

LOCK = write_lock.LOCK.read_text(encoding="utf-8")
ENTRIES = {entry.partition("==")[0]: entry for entry in re.split(r"(?m)^(?=[a-z])", LOCK)[1:]}
PINNED = {
    re.sub(r"[._]+", "-", name).lower(): version
    for name, version in try_bounds.usual((ROOT / "constraints.txt").read_text(encoding="utf-8")).items()
}


def test_every_package_has_hashes_and_the_version_of_the_constraints() -> None:
    for name, entry in ENTRIES.items():
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), name
        version = re.split(r"[ \\\n]", entry.partition("==")[2])[0]
        assert PINNED.get(name, version) == version, name


def test_every_extra_is_locked() -> None:
    promised = try_bounds.lowest((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert promised.keys() <= ENTRIES.keys()
    assert {"serve", "ingest", "map"} <= set(
        write_lock.extras_for_users((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    )


def test_lock_without_torch_omits_only_torch_packages() -> None:
    kept = set(re.findall(r"(?m)^([a-z][\w.-]*)==", check_wheel.without_torch(LOCK)))
    gone = ENTRIES.keys() - kept
    assert {"torch", "triton"} <= gone
    assert all(name in ("torch", "triton") or name.startswith(("cuda-", "nvidia-")) for name in gone)
