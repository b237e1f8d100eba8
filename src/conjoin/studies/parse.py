"""Reads a study from TOML: checks every table and every name that refers to another table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from conjoin.errors import UsageError, unknown
from conjoin.io.formats import AnyPath
from conjoin.runtime.toml_schema import TomlTable, read_toml
from conjoin.studies.spec import (
    GROUPS,
    MEASURES,
    Benchmark,
    Comparison,
    Published,
    PublishedTest,
    Row,
    Study,
    TrainingSettings,
)
from conjoin.training.recipe import Recipe
from conjoin.training.terms import check_term_names

COUNTS = ("train", "valid", "test", "entities", "relations", "examples")
MOST_SEEDS = 10_000
MOST_RUNS = 100_000
"""Most runs of a study. Each run is held in memory, and a small file can ask for billions of them."""
EVERY = "*"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


def read_study(path: AnyPath) -> Study:
    """Read a study's TOML file. Forms are not parsed here, because that needs torch; `study run` parses them first."""
    file = Path(path)
    table = TomlTable(read_toml(file), str(file))
    defaults = table.take("defaults", dict, {})
    settings = {
        dataset: {name: _settings(inside, name, defaults) for name in inside.values}
        for dataset, inside in table.tables("settings").items()
    }
    published = {
        dataset: {name: _published(line) for name, line in _lines(inside).items()}
        for dataset, inside in table.tables("published").items()
    }
    datasets = {
        name: _benchmark(name, inside, printed=name in published) for name, inside in table.tables("datasets").items()
    }
    listed = [row for line in table.listed("rows") for row in _rows(line, settings, tuple(datasets))]
    rows = {row.name: row for row in listed}
    study = Study(
        file=file,
        name=_name(table, table.take("name", str)),
        title=table.take("title", str, ""),
        weights=table.take("weights", str, "last"),
        seeds=_seeds(table, "seeds", default=1),
        seeds_at_most=table.take("seeds_at_most", int, 10**6),
        alpha=table.take("alpha", float, 0.05),
        datasets=datasets,
        rows=rows,
        settings=settings,
        published=published,
        published_tests=tuple(
            _published_test(dataset, measure, line)
            for dataset, inside in table.tables("published_tests").items()
            for measure in inside.values
            for line in inside.listed(measure)
        ),
        comparisons=tuple(_comparison(line, tuple(datasets)) for line in table.listed("comparisons")),
        grid={key: tuple(values) for key, values in table.take("grid", dict, {}).items()},
    )
    table.end()
    if len(rows) < len(listed):
        raise UsageError(f"{file}: two rows have the same name. Give each row its own name.")
    _check(study)
    return study


def _name(table: TomlTable, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{table.where}: the name {name!r} cannot be used as a folder name."
            " Use at most 61 letters, digits, '-', '_' and '.', starting with a letter or digit."
        )
    return name


def _seeds(table: TomlTable, key: str, *, default: int) -> tuple[int, ...]:
    value = table.take(key, (int, list), default)
    if isinstance(value, int) and value > MOST_SEEDS:
        raise table.wrong(key, f"= {value} is too large: a study has at most {MOST_SEEDS:,} seeds")
    if isinstance(value, int):
        return _first(max(0, value))
    seeds = value
    if any(type(seed) is not int or seed < 0 for seed in seeds) or len(set(seeds)) < len(seeds):
        raise table.wrong(
            key, f"= {value!r} should be the number of seeds, or a list of different whole numbers from 0"
        )
    return tuple(seeds)


@cache
def _first(count: int) -> tuple[int, ...]:
    """The seeds 0 to count − 1. Cached, so that rows share one tuple."""
    return tuple(range(count))


def _benchmark(name: str, table: TomlTable, *, printed: bool) -> Benchmark:
    counts = table.take("published_counts", dict, {})
    for key, count in counts.items():
        if key not in COUNTS or type(count) is not int:
            raise table.wrong(
                "published_counts", f"has {key} = {count!r}; allowed are whole numbers for {', '.join(COUNTS)}"
            )
    benchmark = Benchmark(
        name=_name(table, name),
        graph=table.take("graph", str),
        published_on=table.take("published_on", str, ""),
        published_counts=counts,
        printed=printed or bool(counts),
    )
    table.end()
    return benchmark


def _row(table: TomlTable) -> Row:
    name = _name(table, table.take("name", str))
    form = table.take("form", str)
    options = table.take("options", dict, {})
    row = Row(
        name=name,
        form=form,
        settings=table.take("settings", str, form),
        group=table.take("group", str, "main"),
        also_in=table.words("also_in", ()) or (),
        symbol=table.take("symbol", str, ""),
        latex=table.take("latex", str, ""),
        options={key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()},
        rank_factor=table.take("rank_factor", float, 1.0),
        seeds=_seeds(table, "seeds", default=0),
        datasets=table.words("datasets", ()) or (),
        reproduces=table.take("reproduces", str, ""),
        note=table.take("note", str, ""),
    )
    table.end()
    for group in (row.group, *row.also_in):
        if group not in GROUPS:
            raise unknown(f"group in {table.where}", group, GROUPS, way_out=f"Groups are {', '.join(GROUPS)}.")
    return row


def _rows(
    table: TomlTable, settings: Mapping[str, Mapping[str, TrainingSettings]], datasets: tuple[str, ...]
) -> tuple[Row, ...]:
    """The rows of one entry of `rows`: one, or with settings = "*" one for every settings table of its datasets."""
    row = _row(table)
    if row.settings != EVERY:
        return (row,)
    homes: dict[str, list[str]] = {}
    for dataset in row.datasets or datasets:
        if not settings.get(dataset):
            raise table.wrong("settings", f'= "*" finds no settings for {dataset}: write [settings.{dataset!r}]')
        for name in settings[dataset]:
            homes.setdefault(name, []).append(dataset)
    return tuple(
        replace(row, name=_name(table, f"{row.name}-{name}"), settings=name, datasets=tuple(where))
        for name, where in homes.items()
    )


def _settings(table: TomlTable, name: str, defaults: Mapping[str, Any]) -> TrainingSettings:
    given = table.take(name, dict)
    values = {**defaults, **given}
    where = f"{table.where.removesuffix(']')}.{name}]"
    rank = values.pop("rank", None)
    if type(rank) is not int or rank < 1:
        raise UsageError(f"{where}: rank = {rank!r} should be a whole number from 1")
    try:
        recipe = Recipe.from_mapping(values)
        check_term_names(recipe.terms)
        return TrainingSettings(rank=rank, recipe=recipe)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _lines(table: TomlTable) -> dict[str, TomlTable]:
    return {
        name: TomlTable(values, f"{table.where.removesuffix(']')}.{name}]") for name, values in table.values.items()
    }


def _published(table: TomlTable) -> Published:
    real = [each.name for each in fields(Published) if each.name != "runs"]
    published = Published(
        **{name: table.take(name, float, None) for name in real},
        runs=table.take("runs", int, None),
    )
    table.end()
    return published


def _published_test(dataset: str, measure: str, table: TomlTable) -> PublishedTest:
    if measure not in MEASURES:
        raise unknown(f"measure in {table.where}", measure, MEASURES, way_out=f"Measures are {', '.join(MEASURES)}.")
    test = PublishedTest(
        dataset=dataset,
        measure=measure,
        a=table.take("a", str),
        b=table.take("b", str),
        h=table.take("h", int),
        p=table.take("p", float),
        supplementary=table.take("supplementary", bool, False),
    )
    table.end()
    return test


def _comparison(table: TomlTable, datasets: tuple[str, ...]) -> Comparison:
    measures = table.words("measures", None)
    for measure in measures or ():
        if measure not in MEASURES:
            raise unknown(f"measure in {table.where}", measure, MEASURES)
    comparison = Comparison(
        a=table.take("a", str),
        b=table.take("b", str),
        datasets=table.words("datasets", None) or datasets,
        measures=measures or MEASURES,  # type: ignore[arg-type]
        supplementary=table.take("supplementary", bool, False),
    )
    table.end()
    return comparison


def _check(study: Study) -> None:
    """Raise UsageError where a name refers to a row, dataset or table that does not exist."""
    file = study.file
    if study.weights not in ("last", "best"):
        raise UsageError(f"{file}: weights = {study.weights!r} should be last or best")
    if not study.rows or not study.datasets:
        raise UsageError(f"{file}: a study needs at least one row and one dataset. Add `rows` and `[datasets.NAME]`.")
    runs = sum(len(study.datasets_of(row)) * len(study.seeds_of(row)) for row in study.rows.values())
    if runs > MOST_RUNS:
        raise UsageError(
            f"{file}: the study has {runs:,} runs; {MOST_RUNS:,} are allowed. Remove rows, datasets or seeds."
        )
    _unlike_folders(file, study.datasets)
    _unlike_folders(file, study.rows)
    for row in study.rows.values():
        for dataset in study.datasets_of(row):
            _is_one(f"dataset of the row {row.name}", dataset, study.datasets, file)
            _trainable(study, row, dataset)
        if row.reproduces and not any(row.reproduces in lines for lines in study.published.values()):
            raise UsageError(
                f"{file}: the row {row.name} reproduces {row.reproduces}, which has no published numbers."
                f" Add them under [published], or correct `reproduces`."
            )
    for comparison in study.comparisons:
        _is_one("row of a comparison", comparison.a, study.rows, file)
        _is_one("row of a comparison", comparison.b, study.rows, file)
        for dataset in comparison.datasets:
            _is_one("dataset of a comparison", dataset, study.datasets, file)
    for kind, named in (("settings", study.settings), ("published numbers", study.published)):
        for dataset in named:
            _is_one(f"dataset with {kind}", dataset, study.datasets, file)
    for test in study.published_tests:
        _is_one("dataset of a published test", test.dataset, study.datasets, file)


def _trainable(study: Study, row: Row, dataset: str) -> None:
    tables = study.settings.get(dataset, {})
    if row.settings not in tables:
        way_out = (
            f"Write [settings.{dataset!r}] {row.settings} = {{ … }}, or set the row's `settings` to an existing table."
        )
        raise unknown(
            f"settings of the row {row.name} on {dataset} in {study.file}", row.settings, tables, way_out=way_out
        )
    rank = tables[row.settings].rank * row.rank_factor
    if rank < 1 or rank != round(rank):
        raise UsageError(
            f"{study.file}: the row {row.name} has rank {rank:g} on {dataset}, which is not a whole number from 1."
            " Change rank or rank_factor."
        )
    if study.weights == "best" and not tables[row.settings].recipe.validate_every:
        raise UsageError(
            f"{study.file}: weights = 'best' needs validation."
            " Set validate_every in [defaults] or in every settings table."
        )


def _unlike_folders(file: Path, names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise UsageError(
                f"{file}: the names {other} and {name} differ only in case and may share a folder. Rename one."
            )


def _is_one(kind: str, name: str, known: Iterable[str], file: Path) -> None:
    known = list(known)
    if name not in known:
        raise unknown(f"{kind} in {file}", name, known, way_out=f"Choose from {', '.join(known)}.")
