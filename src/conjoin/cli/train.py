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
from conjoin.cli.recipe_options import TRAINING, RecipeOptions, settings_options
from conjoin.runs.prepare import held_apart, training_settings

if TYPE_CHECKING:
    from conjoin.graph.graph import Graph
    from conjoin.runs.folder import RunFolder
    from conjoin.runs.run import Run

MODEL = "Model"
METRICS = {"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10", "mean_rank": "mean rank"}


@settings_options
@opt.reading_options
def train(
    graph: opt.GraphArgument,
    *,
    form: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MODEL,
            help=f"The name of a form (`conjoin forms`), or its text.  [default: {opt.USUAL_FORM}; with --from, the "
            "form of the run]",
        ),
    ] = None,
    quotient: Annotated[
        str | None, typer.Option(rich_help_panel=MODEL, help="For 5star forms: phase, mobius or aligned.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(rich_help_panel=MODEL, help="For complex forms: proper or published.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=TRAINING, help="paper or paper-tuned: the published settings for this dataset and form."
        ),
    ] = None,
    settings_file: Annotated[
        Path | None,
        typer.Option(
            "--settings", rich_help_panel=TRAINING, help="A TOML file of settings, such as `conjoin tune` writes."
        ),
    ] = None,
    typed: RecipeOptions,
    weights: Annotated[
        str, typer.Option(rich_help_panel=TRAINING, help="The weights to report: last, or best on valid.")
    ] = "last",
    seed: Annotated[
        int,
        typer.Option(rich_help_panel=TRAINING, help="Seed of the initial numbers and of the order of the examples."),
    ] = 0,
    device: opt.Device = None,
    processes: Annotated[
        int,
        typer.Option(min=1, rich_help_panel=opt.RUNNING, help="Share the entities among N processes on this machine."),
    ] = 1,
    replicas: Annotated[
        int,
        typer.Option(
            min=1,
            rich_help_panel=opt.RUNNING,
            help="With several processes: keep N copies of the entities and share the examples among them.",
        ),
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", rich_help_panel=opt.FOLDER, help="The run folder.  [default: runs/…]")
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            rich_help_panel=opt.FOLDER,
            help="Start from the embeddings of a finished run, matched by name; the graph may have grown since.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", rich_help_panel=opt.FOLDER, help="Continue an interrupted run from its last checkpoint."
        ),
    ] = False,
    checkpoint_epochs: opt.CheckpointEpochs = 0,
    checkpoint_minutes: opt.CheckpointMinutes = 0.0,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=opt.RUNNING,
            help="Refuse to start a training that needs more, such as 8GB; `any` never refuses.  "
            "[default: the free memory]",
        ),
    ] = None,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Train a model on a graph, then rank its valid and test facts.

    The run folder contains the settings, the weights, the metrics and the ranks. For a finished run the command only
    prints the result. A checkpoint is written after every epoch, or less often if that takes more than a tenth of the
    time. Ctrl-C or SIGTERM finish the current step, write a checkpoint and exit with 130 or 143; a second Ctrl-C stops
    at once. The same command with --resume continues, with the same result bit for bit.

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

    earlier = open_run(start) if start else None
    start_run = earlier.settings if earlier else None
    chosen_form = form_of(form or (start_run.form if start_run else opt.USUAL_FORM), quotient=quotient, layout=layout)
    chosen = choose_device(device)
    # Check the options before the graph is read. Others may depend on these two, which the settings file can contain.
    assumed = {"validate_every": 1, "negatives": 1}
    check_term_names(Recipe.from_mapping({**assumed, **typed.recipe}).terms)
    with ProgressDisplay().watching() as watcher:
        loaded = opt.load_graph(graph, options=reading, labels=labels, watcher=watcher)
    loaded = held_apart(loaded, earlier.graph if earlier else None, start, given=not Path(graph).is_file(), say=say)
    _say_unseen(loaded)
    rank = start_run.rank if start_run else 100
    settings = {
        "rank": rank,
        **training_settings(loaded, chosen_form, typed.all, preset=preset, file=settings_file, say=say),
    }
    usual = usual_precision(chosen.device, chosen_form, settings=settings, processes=mesh.count)
    # A run that started on another device keeps its precision.
    started = RunFolder(out).run.recipe.precision if out and RunFolder(out).exists else None
    settings.setdefault("precision", started or usual)
    chosen_rank = settings.pop("rank")
    recipe = Recipe.from_mapping(settings)
    run = Run.of(
        loaded,
        str(chosen_form),
        rank=chosen_rank,
        recipe=recipe,
        seed=seed,
        weights=weights,  # type: ignore[arg-type]
        origin=f"{start_run.id} {reported_weights(RunFolder(start), None)}" if start_run and start else "",
    )
    if start_run and (start_run.form, start_run.rank) != (run.form, run.rank):
        raise UsageError(
            f"{start} has the form {start_run.form} and rank {start_run.rank}, the options ask for {run.form} and rank "
            f"{run.rank}. Leave out --form, --rank and --preset, or train without --from."
        )
    folder = out or Path("runs") / run.title
    _refuse_too_large(run, folder, loaded, device=chosen.device, limit=memory_limit, processes=mesh.count)
    initial = (
        initial_rows(earlier.model, earlier.graph, loaded, seed=seed, scale=recipe.initial_scale) if earlier else None
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
        finished = execute(run, loaded, folder, conduct=conduct, resume=resume or restarted(), initial=initial)
    if already:
        say(f"{folder} is already finished; this is its result.")
    if json:
        emit(train_report(finished))
    else:
        show_training(finished)


def _say_unseen(graph: Graph) -> None:
    if n_unseen := len(graph.unseen) + len(graph.unseen_relations):
        relations = f" ({len(graph.unseen_relations):,} of them relations)" if len(graph.unseen_relations) else ""
        say(f"{graph.name}: {n_unseen:,} names{relations} occur in no training fact.")


def _refuse_too_large(run: Run, folder: Path, graph: Graph, *, device: Any, limit: str | None, processes: int) -> None:
    """Raise UsageError with advice if the training needs more memory than there is."""
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


def train_report(folder: RunFolder) -> dict[str, Any]:
    """The JSON object of `conjoin train`."""
    result = folder.result
    costs = ("seconds_per_epoch", "epochs", "parameters", "relation_parameters", "relation_bytes", "peak_bytes")
    return {
        "run": str(folder.path),
        "id": folder.run.id,
        "valid": result["valid"],
        "test": result["test"],
        "weights": result["weights"],
        **{name: result[name] for name in costs},
    }


def show_training(folder: RunFolder) -> None:
    """Print the metrics, sizes and time of a finished training."""
    result = folder.result
    rows = [
        (f"{name} (epoch {version['epoch']})", split, *_cells(version[split], METRICS))
        for name in ("last", "best")
        if (version := result[name])
        for split in ("valid", "test")
    ]
    show_table(f"{folder.path}", ("weights", "split", *METRICS.values()), rows, left=2)
    seconds = result["seconds_per_epoch"]
    show(
        f"{result['parameters']:,} parameters, {result['relation_parameters']:,} of relations; "
        + (f"{seconds:.3g} s per epoch; " if seconds else "")
        + f"peak memory {result['peak_bytes'] / 2**20:,.0f} MiB"
    )
    show(f"Ask it: conjoin ask {folder.path} HEAD RELATION '?'")


def _cells(metrics: Mapping[str, float | None], names: Iterable[str]) -> list[str]:
    large = {"mean_rank": ",.1f", "questions": ",.0f"}
    return [
        format(value, large[name]) if name in large and (value := metrics[name]) is not None else number(metrics[name])
        for name in names
    ]
