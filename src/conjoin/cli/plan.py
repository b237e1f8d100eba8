"""`conjoin plan`: estimate memory and time of a training before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, show, show_table
from conjoin.cli.recipe_options import RANK_HELP, TRAINING

if TYPE_CHECKING:
    from conjoin.forms.base import Form
    from conjoin.planning.memory_model import PlannedSizes
    from conjoin.planning.plan import TrainingPlan
    from conjoin.planning.probe import ProbedSpeed

SIZES = "Sizes instead of a graph"
TERMS = {
    "table": "entity rows and relation rows",
    "optimizer": "state of the optimiser per parameter",
    "gradient": "gradient of the table, or of the current tile",
    "copies": "a second table in bf16, for products on a GPU",
    "best_weights": "a second copy of the table, if the best on valid is kept",
    "examples": "ids of the training facts in both directions, up to one span",
    "shuffling": "the order of an epoch, and a span of examples in it",
    "scores": "batch × entities, at once or in chunks",
    "activations": "rows of the batch that autograd keeps",
    "filtering": "sorting of the known answers (before training)",
    "ranking": "known answers, scores and comparisons (after training)",
    "program": "everything else",
}


@opt.reading_options
def plan(
    graph: Annotated[
        str | None,
        typer.Argument(metavar="[GRAPH]", help="A graph as for `conjoin train`, or give its sizes with options."),
    ] = None,
    *,
    entities: Annotated[int | None, typer.Option(min=1, rich_help_panel=SIZES, help="Number of entities.")] = None,
    relations: Annotated[int, typer.Option(min=1, rich_help_panel=SIZES, help="Number of relations.")] = 1000,
    triples: Annotated[int | None, typer.Option(min=1, rich_help_panel=SIZES, help="Number of training facts.")] = None,
    form: Annotated[
        str, typer.Option(rich_help_panel=TRAINING, help="The name of a form (`conjoin forms`), or its text.")
    ] = opt.USUAL_FORM,
    rank: Annotated[int, typer.Option(min=1, rich_help_panel=TRAINING, help=RANK_HELP)] = 100,
    batch: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=TRAINING, help="Examples per step.  [default: as in train]")
    ] = None,
    optimizer: Annotated[str, typer.Option(rich_help_panel=TRAINING, help="adagrad, adam or sgd.")] = "adagrad",
    precision: Annotated[
        str | None, typer.Option(rich_help_panel=TRAINING, help="fp32, tf32 or bf16.  [default: as in train]")
    ] = None,
    negatives: Annotated[
        int,
        typer.Option(min=0, rich_help_panel=TRAINING, help="Number of sampled entities per step; 0 for all entities."),
    ] = 0,
    validates: Annotated[
        bool, typer.Option("--validates", rich_help_panel=TRAINING, help="Also keep the best weights on valid.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, rich_help_panel=opt.RUNNING, help="Number of processes that share the entities.")
    ] = 1,
    memory: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=opt.RUNNING, help="Memory of each process, such as 141GB.  [default: the free memory]"
        ),
    ] = None,
    device: opt.Device = None,
    probe: Annotated[bool, typer.Option("--probe/--no-probe", help="Measure a few steps to estimate the time.")] = True,
    labels: opt.Labels = None,
    reading: opt.Reading,
    json: opt.Json = False,
) -> None:
    """Estimate memory and time of a training before it starts.

    The memory is computed; the time is estimated from a few training steps on this machine. Also prints how much memory
    the ties of the form save: they reduce the parameters of relations only, and most graphs have far more for entities.

    \b
    conjoin plan wn18rr --form 5star-conj --rank 500
    conjoin plan --entities 100000000 --triples 1000000000 --rank 100 --processes 8 --memory 141GB --device cuda
    """
    from conjoin.forms.notation import form as form_of
    from conjoin.planning.memory_model import PlannedSetting
    from conjoin.planning.plan import left_of, make_plan
    from conjoin.training.negatives import check_negatives
    from conjoin.training.presets import usual_batch
    from conjoin.training.recipe import Recipe

    sizes = _sizes(graph, entities, relations, triples, reading=reading, labels=labels)
    check_negatives(negatives, sizes.entities)
    kind, here = _device(device, elsewhere=memory is not None)
    usual = _usual_precision(device, here=here, form=form_of(form), negatives=negatives, processes=processes)
    recipe = Recipe(optimizer=optimizer, precision=precision or usual)  # type: ignore[arg-type]
    setting = PlannedSetting(
        form=form_of(form),
        rank=rank,
        batch=batch or usual_batch(sizes.examples),
        optimizer=recipe.optimizer,
        precision=recipe.precision,
        negatives=negatives,
        validates=validates,
        processes=processes,
        device=kind,  # type: ignore[arg-type]
    )
    free, held = _memory(device) if here else (0, 0)
    if memory:
        free = left_of(opt.bytes_of(memory), held)
    made = make_plan(sizes, setting, available=free, held=held)
    speed = None
    if probe and here:
        from conjoin.planning.probe import probe as measured

        speed = measured(sizes, setting)
    if json:
        emit({**made.to_json(), "time": _times(made, speed)})
    else:
        _show(made, speed)


def _sizes(
    graph: str | None,
    entities: int | None,
    relations: int,
    triples: int | None,
    *,
    reading: opt.Reading,
    labels: Path | None,
) -> PlannedSizes:
    from conjoin.errors import UsageError
    from conjoin.planning.memory_model import PlannedSizes

    if graph is None:
        if entities is None or triples is None:
            raise UsageError("No graph given. Pass GRAPH, or its sizes with --entities and --triples.")
        return PlannedSizes(entities=entities, relations=relations, train=triples)
    if entities is not None or triples is not None:
        raise UsageError("GRAPH and --entities or --triples exclude each other. Give the graph or its sizes.")
    with ProgressDisplay().watching() as watcher:
        return PlannedSizes.of(opt.load_graph(graph, options=reading, labels=labels, watcher=watcher))


def _device(wanted: str | None, *, elsewhere: bool) -> tuple[str, bool]:
    """The kind of device to plan for (cpu or cuda), and whether this machine has it."""
    from conjoin.errors import UsageError
    from conjoin.runtime.device import choose_device

    try:
        chosen = choose_device(wanted)
    except UsageError:
        if not (elsewhere and wanted and wanted.startswith("cuda")):
            raise
        return "cuda", False
    return ("cuda" if chosen.device.type == "cuda" else "cpu"), True


def _usual_precision(device: str | None, *, here: bool, form: Form, negatives: int, processes: int) -> str:
    """The precision that `train` would use: on this device, or on a current GPU if the device is elsewhere."""
    from conjoin.runtime.device import choose_device
    from conjoin.training.steps.choose import usual_precision

    if not here:
        return "tf32" if negatives or processes > 1 else "bf16"
    return usual_precision(choose_device(device).device, form, settings={"negatives": negatives}, processes=processes)


def _memory(wanted: str | None) -> tuple[int, int]:
    """Free bytes on the device, and bytes that this process uses."""
    from conjoin.runtime.device import choose_device, free_bytes, held_bytes

    device = choose_device(wanted).device
    return free_bytes(device), held_bytes(device)


def _times(made: TrainingPlan, speed: ProbedSpeed | None) -> dict[str, Any] | None:
    if speed is None:
        return None
    return {
        "seconds_per_step": speed.step,
        "seconds_per_epoch": speed.epoch(made.sizes, made.setting),
        "seconds_to_rank_valid_and_test": speed.rankings(made.sizes),
        "measured_with_entities": speed.entities,
    }


def _show(made: TrainingPlan, speed: ProbedSpeed | None) -> None:
    from conjoin.planning.memory_model import parameters
    from conjoin.planning.plan import sized

    sizes, setting, needed, ties = made.sizes, made.setting, made.memory, made.tying
    entities, relations = parameters(sizes, setting)
    show(
        f"{setting.form} of rank {setting.rank}, batch {setting.batch}, {setting.optimizer}, {setting.device}, "
        f"{setting.processes} process{'es' if setting.processes > 1 else ''}: "
        f"{sizes.entities:,} entities, {sizes.relations:,} relations, {sizes.train:,} training triples"
    )
    show(f"{entities + relations:,} parameters: {entities:,} of entities, {relations:,} of relations")
    show()
    rows = [(name.replace("_", " "), TERMS[name], sized(getattr(needed, name))) for name in TERMS]
    free = "" if made.available is None else f" of {sized(made.available)} free"
    show_table("Memory of each process", ("term", "content", "bytes"), rows, left=2)
    verdict = {True: ": fits", False: ": DOES NOT FIT", None: ""}[made.fits]
    show(f"Peak: {sized(needed.peak)}{free}{verdict}")
    if made.held:
        show(f"Including the program and the graph ({sized(made.held)}): {sized(needed.peak + made.held)}")
    if needed.host:
        show(f"In main memory: {sized(needed.host)}")
    show(
        f"Ties save {sized(ties.saved_bytes)}: {ties.share_of_relations:.0%} of the relation parameters, "
        f"{100 * ties.share_of_everything:.2g} % of all parameters (the entity table is the same for every form)"
    )
    if speed is not None:
        extrapolated = "" if speed.entities >= sizes.entities else f", extrapolated from {speed.entities:,} entities"
        show(
            f"Time here: {_clock(speed.epoch(sizes, setting))} per epoch"
            f" ({speed.step:.3g} s a step, {-(-sizes.examples // setting.batch):,} steps{extrapolated}); "
            f"ranking valid and test {_clock(speed.rankings(sizes))}"
        )
    advice = made.recommendation
    show(
        f"Recommended: rank {advice.rank}, batch {advice.batch}, {advice.precision}, {advice.shards} "
        f"shard{'s' if advice.shards > 1 else ''}. " + " ".join(advice.sentences)
    )


def _clock(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.3g} s"
