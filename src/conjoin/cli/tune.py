"""`conjoin tune`: search for good settings by MRR on valid."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, number, say, show
from conjoin.cli.recipe_options import RANK_HELP, TRAINING, TermOption, term_weights

SEARCH = "Search"


@opt.reading_options
def tune(
    graph: opt.GraphArgument,
    *,
    form: Annotated[str, typer.Option(help="The name of a form (`conjoin forms`), or its text.")] = opt.USUAL_FORM,
    trials: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=SEARCH, help="Number of trials of all processes.  [default: 50; with --grid every point]"
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SEARCH,
            help="paper, or a TOML file with a table [grid].  [default: a guided search of lr, n3 and batch]",
        ),
    ] = None,
    rank: Annotated[int, typer.Option(rich_help_panel=TRAINING, help=f"{RANK_HELP} The grid can set it.")] = 100,
    negatives: Annotated[
        int,
        typer.Option(
            rich_help_panel=TRAINING,
            help="Number of sampled entities per step, unless the grid sets it; 0 for all entities.",
        ),
    ] = 0,
    negatives_power: Annotated[
        float,
        typer.Option(
            rich_help_panel=TRAINING,
            help="Sample entities in proportion to (1 + number of facts)^POWER, unless the grid sets it.",
        ),
    ] = 0.0,
    term: TermOption = None,
    epochs: Annotated[int, typer.Option(rich_help_panel=TRAINING, help="Most epochs of a trial.")] = 50,
    validate_every: Annotated[int, typer.Option(rich_help_panel=TRAINING, help="Rank valid every N epochs.")] = 5,
    prune: Annotated[
        bool,
        typer.Option("--prune/--no-prune", rich_help_panel=SEARCH, help="Stop trials early that are below the median."),
    ] = True,
    seed: Annotated[int, typer.Option(rich_help_panel=SEARCH, help="Seed of every trial and of the search.")] = 0,
    storage: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SEARCH,
            help="URL of the database of trials; several processes can share it.  [default: sqlite:///runs/tune.db]",
        ),
    ] = None,
    device: opt.Device = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", rich_help_panel=opt.OUTPUT, help="Also write the settings to this TOML file."),
    ] = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Search for good settings by MRR on valid.

    Prints the best settings as a TOML block that `train --settings` and a study file read. Finished trials are stored
    in a database. Ctrl-C or SIGTERM finish the current step and exit with 130 or 143; the same command continues the
    search and repeats the unfinished trial.

    \b
    conjoin tune atlas --form 5star-conj --rank 32 --epochs 20 --trials 20 -o atlas.toml
    conjoin train atlas --form 5star-conj --settings atlas.toml
    conjoin tune wn18rr --form 5star-conj --grid paper --storage postgresql://host/searches
    """
    from conjoin.runtime.atomic_files import check_target, make_folder, making, replacing
    from conjoin.runtime.device import choose_device
    from conjoin.training.recipe import TermWeights
    from conjoin.training.search_space import SearchSpace, grid_of, settings_block
    from conjoin.training.tuning import best_attempt
    from conjoin.training.tuning import tune as search_for

    if out is not None:
        check_target(out)
    search = SearchSpace(
        form=form,
        trials=trials,
        grid=grid_of(grid) if grid else None,
        rank=rank,
        negatives=negatives,
        negatives_power=negatives_power,
        terms=TermWeights(term_weights(term)),
        epochs=epochs,
        validate_every=validate_every,
        prune=prune,
        seed=seed,
        storage=storage or "sqlite:///runs/tune.db",
    )
    chosen = choose_device(device)
    usual = making(Path("runs")) if storage is None else nullcontext()
    with ProgressDisplay().watching() as watcher, opt.stop_on_signal() as stop, usual:
        loaded = opt.load_graph(graph, options=reading, labels=None, watcher=watcher)
        for attempt in search_for(loaded, search, device=str(chosen.device), track=watcher.track, stop=stop):
            settings_text = ", ".join(f"{key} {value}" for key, value in attempt.settings.items())
            reached = f"valid MRR {number(attempt.mrr, 4)}" if attempt.mrr is not None else attempt.reason
            say(f"trial {attempt.number} ({settings_text}): {attempt.state}, {reached}")
        winner = best_attempt(loaded, search)
    text = settings_block(loaded, search, winner)
    if out is not None:
        make_folder(out.parent)
        with replacing(out) as aside:
            aside.write_text(text + "\n", encoding="utf-8")
        command = ["conjoin", "train", graph, *opt.reading_words(reading), "--form", form, "--settings", str(out)]
        say(f"Train with it: {shlex.join(command)}")
    if json:
        settings: dict[str, Any] = {**winner.settings, "epochs": winner.epoch}
        emit(
            {"graph": loaded.name, "form": form, "valid_mrr": winner.mrr, "trial": winner.number, "settings": settings}
        )
        return
    show(text)
