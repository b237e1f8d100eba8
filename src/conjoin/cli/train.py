"""`conjoin train`: train a model on a graph."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.launch import shared_among
from conjoin.cli.output import ProgressDisplay, emit, number, say, show, show_table
from conjoin.cli.recipe_options import RecipeOptions, settings_options
from conjoin.runs.prepare import held_apart, training_settings

if TYPE_CHECKING:
    from conjoin.graph.graph import Graph
    from conjoin.runs.folder import RunFolder
    from conjoin.runs.run import Run


METRICS = {"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10", "mean_rank": "mean rank"}


@settings_options
@opt.reading_options
def train(
    graph: opt.GraphArgument,
    *,
    form: Annotated[
        str | None,
        typer.Option(
            help=f"A form's name (`conjoin forms`) or its text.  [default: {opt.USUAL_FORM}; with --from the run's]"
        ),
    ] = None,
    quotient: Annotated[str | None, typer.Option(help="Of 5star forms: phase, mobius or aligned.")] = None,
    layout: Annotated[str | None, typer.Option(help="Of complex forms: proper or published.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="paper or paper-tuned: the published settings for this dataset and form.")
    ] = None,
    settings_file: Annotated[
        Path | None, typer.Option("--settings", help="A TOML file of settings, as `conjoin tune` prints them.")
    ] = None,
    given: RecipeOptions,
    weights: Annotated[str, typer.Option(help="Which weights to report: last, or best on valid.")] = "last",
    seed: Annotated[int, typer.Option(help="Seed of the start and of the order of examples.")] = 0,
    device: opt.Device = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Share the entities among so many processes of this machine.")
    ] = 1,
    replicas: Annotated[
        int, typer.Option(min=1, help="Of several processes: hold the entities so many times, share the questions.")
    ] = 1,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Run folder.  [default: runs/…]")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Go on from a finished run, of this graph or one that has grown: rows by name.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a half-done run exactly.")] = False,
    checkpoint_epochs: opt.CheckpointEpochs = 0,
    checkpoint_minutes: opt.CheckpointMinutes = 0.0,
    memory_limit: Annotated[
        str | None,
        typer.Option(help="Refuse to need more in all, such as 8GB; `any` never refuses.  [default: what is free]"),
    ] = None,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Train a model on a graph, then rank valid and test.

    Everything is kept in a run folder. A finished run is not repeated: its result is shown. After every epoch a
    checkpoint is written, or as often as a tenth of the time allows. Ctrl-C or SIGTERM finish the step, write one and
    exit with 130 or 143; --resume goes on from there, bit for bit. A second Ctrl-C stops at once.

    \b
    conjoin train atlas --form 5star-conj --rank 32 --epochs 20 -o runs/atlas
    conjoin train wn18rr --form 5star-conj --preset paper
    conjoin train my-facts.csv --form complex-conj --validate-every 5 --weights best
    conjoin train my-facts-of-today.csv --from runs/my-facts --epochs 10 -o runs/my-facts-of-today
    conjoin train big/ --processes 4 --negatives 5000
    torchrun --nproc-per-node 8 --max-restarts 3 -m conjoin train big/ --rank 100 -o runs/big
    """
    mesh = shared_among(processes, replicas)
    from conjoin.errors import UsageError
    from conjoin.forms.notation import form as form_of
    from conjoin.predict.predictor import open_run
    from conjoin.runs.execute import ExecutionOptions, execute
    from conjoin.runs.folder import RunFolder
    from conjoin.runs.open import reported_weights
    from conjoin.runs.run import Run
    from conjoin.runs.warm_start import initial_rows
    from conjoin.runtime.device import choose_device
    from conjoin.runtime.distributed import restarted
    from conjoin.training.recipe import Recipe
    from conjoin.training.steps.choose import usual_precision
    from conjoin.training.terms import check_term_names

    before = open_run(start) if start else None
    known = before.settings if before else None
    chosen_form = form_of(form or (known.form if known else opt.USUAL_FORM), quotient=quotient, layout=layout)
    chosen = choose_device(device)
    needed = {"validate_every": 1, "negatives": 1}  # what other options need may stand in a file that is not read yet
    check_term_names(Recipe.from_mapping({**needed, **given.recipe}).terms)
    with ProgressDisplay().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=labels, watcher=watcher)
    loaded = held_apart(loaded, before.graph if before else None, start, given=not Path(graph).is_file(), say=say)
    _say_unseen(loaded)
    rank = known.rank if known else 100
    settings = {
        "rank": rank,
        **training_settings(loaded, chosen_form, given.all, preset=preset, file=settings_file, say=say),
    }
    usual = usual_precision(chosen.device, chosen_form, settings=settings, processes=mesh.count)
    begun = RunFolder(out).run.recipe.precision if out and RunFolder(out).exists else None  # perhaps by other means
    settings.setdefault("precision", begun or usual)
    chosen_rank = settings.pop("rank")
    recipe = Recipe.from_mapping(settings)
    run = Run.of(
        loaded,
        str(chosen_form),
        rank=chosen_rank,
        recipe=recipe,
        seed=seed,
        weights=weights,  # type: ignore[arg-type]
        origin=f"{known.id} {reported_weights(RunFolder(start), None)}" if known and start else "",
    )
    if known and (known.form, known.rank) != (run.form, run.rank):
        raise UsageError(
            f"{start} is {known.form} of rank {known.rank}, this would be {run.form} of rank {run.rank}: "
            "leave out --form, --rank and --preset, or train from scratch"
        )
    folder = out or Path("runs") / run.title
    _refuse_too_large(run, folder, loaded, device=chosen.device, limit=memory_limit, processes=mesh.count)
    initial = (
        initial_rows(before.model, before.graph, loaded, seed=seed, scale=recipe.initial_scale) if before else None
    )
    among = f" × {mesh.count} processes" if mesh.count > 1 else ""
    say(f"{run.form} of rank {run.rank} on {loaded.name}, {chosen.device}{among} ({chosen.reason}) → {folder}")
    with ProgressDisplay(recipe.epochs, loaded.name).watching() as watcher, opt.stop_on_signal() as stop:
        conduct = ExecutionOptions(
            device=str(chosen.device),
            checkpoint_epochs=checkpoint_epochs,
            checkpoint_minutes=checkpoint_minutes,
            command=shlex.join(["conjoin", *sys.argv[1:]]),
            track=watcher.track,
            stop=stop,
            watch=watcher.epoch,
            note=say,
        )
        already = RunFolder(folder).finished
        done = execute(run, loaded, folder, conduct=conduct, resume=resume or restarted(), initial=initial)
    if already:
        say(f"{folder} was finished before: this is its result")
    if json:
        emit(train_report(done))
    else:
        show_training(done)


def _say_unseen(graph: Graph) -> None:
    if n_unseen := len(graph.unseen) + len(graph.unseen_relations):
        relations = f", {len(graph.unseen_relations):,} of them relations," if len(graph.unseen_relations) else ""
        say(f"{graph.name}: {n_unseen:,} names{relations} occur in no training fact: nothing is learned about them")


def _refuse_too_large(run: Run, folder: Path, graph: Graph, *, device: Any, limit: str | None, processes: int) -> None:
    """Say what would fit instead of running out of memory hours later."""
    from conjoin.forms.notation import parse
    from conjoin.planning.memory_model import PlannedSetting, PlannedSizes
    from conjoin.planning.plan import left_of, refuse_unless_fits
    from conjoin.runs.folder import RunFolder
    from conjoin.runtime.device import free_bytes, held_bytes

    if limit == "any" or RunFolder(folder).finished:
        return
    setting = PlannedSetting(
        form=parse(run.form),
        rank=run.rank,
        batch=run.recipe.batch,
        optimizer=run.recipe.optimizer,
        precision=run.recipe.precision,
        validates=run.recipe.validate_every > 0,
        negatives=run.recipe.negatives,
        processes=processes,
        device="cuda" if device.type == "cuda" else "cpu",
    )
    # Processes on a CPU share one memory.
    free, held = free_bytes(device) // (1 if device.type == "cuda" else processes), held_bytes(device)
    available = left_of(opt.bytes_of(limit), held) if limit else free
    refuse_unless_fits(PlannedSizes.of(graph), setting, available=available, held=held)


def train_report(done: RunFolder) -> dict[str, Any]:
    """The JSON object of `conjoin train`."""
    result = done.result
    costs = ("seconds_per_epoch", "epochs", "parameters", "relation_parameters", "relation_bytes", "peak_bytes")
    return {
        "run": str(done.path),
        "id": done.run.id,
        "valid": result["valid"],
        "test": result["test"],
        "weights": result["weights"],
        **{name: result[name] for name in costs},
    }


def show_training(done: RunFolder) -> None:
    """The tables after training."""
    result = done.result
    rows = [
        (f"{name} (epoch {version['epoch']})", split, *_cells(version[split], METRICS))
        for name in ("last", "best")
        if (version := result[name])
        for split in ("valid", "test")
    ]
    show_table(f"{done.path}", ("weights", "split", *METRICS.values()), rows, left=2)
    seconds = result["seconds_per_epoch"]
    show(
        f"{result['parameters']:,} parameters, {result['relation_parameters']:,} of relations; "
        + (f"{seconds:.3g} s per epoch; " if seconds else "")
        + f"peak memory {result['peak_bytes'] / 2**20:,.0f} MiB"
    )
    show(f"Ask it: conjoin ask {done.path} HEAD RELATION '?'")


def _cells(metrics: Mapping[str, float | None], names: Iterable[str]) -> list[str]:
    large = {"mean_rank": ",.1f", "questions": ",.0f"}
    return [
        format(value, large[name]) if name in large and (value := metrics[name]) is not None else number(metrics[name])
        for name in names
    ]
