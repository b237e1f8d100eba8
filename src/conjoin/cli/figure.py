"""`conjoin figure`: sphere and entities draw runs; curves, frontier, pvalues and patterns draw a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conjoin.cli import options as opt
from conjoin.cli.output import ProgressDisplay, emit, say, show
from conjoin.cli.study import Root, StudyArgument

if TYPE_CHECKING:
    from conjoin.geometry.relation_maps import RelationMaps
    from conjoin.predict.predictor import Predictor
    from conjoin.report.build import Plot

NEEDED: dict[Plot, str] = {
    "curves": "a finished run",
    "frontier": "a finished run",
    "pvalues": "two rows of the study's `comparisons`, with two seeds or more of each",
    "patterns": "a form and one that ties it (complex, complex-conj; 5star, 5star-neg; …) with the same `settings`",
}
figure_app = typer.Typer(
    help="Draw pictures of runs and studies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
SecondRun = Annotated[
    Path | None, typer.Argument(metavar="[RUN2]", help="A second run, drawn next to the first at the same scale.")
]
SphereOut = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        rich_help_panel=opt.OUTPUT,
        help="File to write, ending in .png, .svg, .pdf or .html; without an ending, one file of each.",
    ),
]
EntitiesOut = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        rich_help_panel=opt.OUTPUT,
        help="File to write, ending in .png, .svg or .pdf; without an ending, one file of each.",
    ),
]
Folder = Annotated[
    Path, typer.Option("-o", "--out", rich_help_panel=opt.OUTPUT, help="Folder for the SVG and PDF files.")
]
Coordinates = Annotated[
    list[int] | None,
    typer.Option("--coordinate", help="The complex coordinate, from 0; repeat it for the second run."),
]


@figure_app.command("sphere", cls=opt.Verb)
def sphere(
    run: opt.RunArgument,
    second: SecondRun = None,
    *,
    relation: Annotated[str, typer.Option(help="A relation's name or label.")],
    coordinate: Coordinates = None,
    entity: Annotated[
        str | None,
        typer.Option(
            help="Draw the circle around this entity.  [default: the frequent head that the relation moves most]"
        ),
    ] = None,
    iterates: Annotated[int, typer.Option(min=1, max=20, help="Number of images and of inverse images.")] = 5,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Draw the reciprocal relation, from tails to heads.")
    ] = False,
    as_mobius: Annotated[
        bool,
        typer.Option(
            "--as-mobius", help="For quotient=phase or aligned: draw the Möbius map with the same a, b, c, d."
        ),
    ] = False,
    out: SphereOut = None,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Draw on the Riemann sphere how a relation moves one coordinate.

    Blue: a circle around an entity. Green: its images under the relation's Möbius map. Red: its images under the
    inverse map. Grey: the flow between them. Fixed points are marked. By default the coordinate is the one that
    contributes most to the scores of the relation's training facts. The HTML file can be turned, animates the flow and
    works offline.

    \b
    conjoin train atlas --form 5star --quotient mobius --rank 32 --epochs 30 -o runs/5star
    conjoin train atlas --form 5star-neg --quotient mobius --rank 32 --epochs 30 -o runs/5star-neg
    conjoin figure sphere runs/5star runs/5star-neg --relation borders -o figures/borders
    conjoin figure sphere runs/5star --relation borders --coordinate 3 --entity France -o france.pdf
    """
    from conjoin.geometry.relation_maps import RelationMaps, best_head, symbol
    from conjoin.geometry.scene import Scene
    from conjoin.geometry.sphere_figure import draw_spheres, files_for, write_figure, written
    from conjoin.geometry.sphere_html import sphere_page
    from conjoin.predict.predictor import open_run

    runs = [run, *([second] if second else [])]
    targets = files_for(out or Path(f"sphere-{_plain(relation)}"))
    predictors = [open_run(each, weights=weights) for each in runs]
    moves = []
    for predictor in predictors:
        r = predictor.graph.relations.find(relation)
        moves.append(
            RelationMaps(
                predictor.model, predictor.graph, r + reverse * predictor.graph.n_relations, as_mobius=as_mobius
            )
        )
    coordinates = _coordinates(coordinate, moves)
    entities = _entities(predictors, entity) or [best_head(list(zip(moves, coordinates, strict=True)))] * len(moves)
    if entity is None and len(predictors) > 1:
        name = predictors[0].graph.entities.names[entities[0]]
        entities = [predictor.graph.entities.find(name) for predictor in predictors]
    scenes = [
        Scene(
            map=move.map(i),
            place=move.places(i, [e])[0],
            run=str(path),
            form=symbol(predictor.model),
            relation=_label(predictor, move, reverse=reverse),
            entity=predictor.graph.entities.label(e),
            coordinate=i,
            note=move.reading.note,
            borrowed=move.reading.drawn == "mobius",
            iterates=iterates,
        )
        for path, predictor, move, i, e in zip(runs, predictors, moves, coordinates, entities, strict=True)
    ]
    drawn = draw_spheres(scenes) if set(targets) != {"html"} else None
    for kind, file in targets.items():
        if kind == "html":
            write_figure(file, sphere_page(scenes, title=f"{scenes[0].relation} on the sphere").encode())
        elif drawn is not None:
            write_figure(file, written(drawn, kind))
    if json:
        emit({"files": [str(file) for file in targets.values()], "scenes": [scene.to_json() for scene in scenes]})
        return
    for scene in scenes:
        show(f"{scene.run}: {scene.relation}, coordinate {scene.coordinate}, around {scene.entity}: {scene.words}")
    for note in dict.fromkeys(scene.note for scene in scenes):
        say(note)
    show("Drawn: " + ", ".join(str(file) for file in targets.values()))


@figure_app.command("entities", cls=opt.Verb)
def entities(
    run: opt.RunArgument,
    second: SecondRun = None,
    *,
    entity: Annotated[
        str | None, typer.Option(help="The entity to draw.  [default: the entity with most facts]")
    ] = None,
    coordinate: Coordinates = None,
    out: EntitiesOut = None,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Draw one entity under every relation: the tie keeps it in a plane.

    Compares ComplEx with Complεx. With the tie a2 = conj(a1), coordinates i and j = i + rank/2 of the transformed
    entity obey Re z_j = a Re z_i + b Im z_i, where a and b depend on the entity only, so the points lie in a plane.
    Without the tie they do not. The last number printed is for all entities under one relation: the share of the
    variance of Re z_j that a plane explains.

    \b
    conjoin train umls --form complex --rank 32 --epochs 30 --batch 100 -o runs/complex
    conjoin train umls --form complex-conj --rank 32 --epochs 30 --batch 100 -o runs/complex-conj
    conjoin figure entities runs/complex runs/complex-conj -o figures/entities
    """
    from conjoin.errors import UsageError
    from conjoin.geometry.plane_figure import draw_planes
    from conjoin.geometry.relation_maps import symbol
    from conjoin.geometry.sphere_figure import files_for, write_figure, written
    from conjoin.geometry.tie_plane import transformed
    from conjoin.predict.predictor import open_run

    runs = [run, *([second] if second else [])]
    targets = files_for(out or Path("entities"))
    if set(targets) == {"html"}:
        raise UsageError("`figure entities` writes .png, .svg or .pdf files, not .html. Change the ending of --out.")
    predictors = [open_run(each, weights=weights) for each in runs]
    asked = coordinate or []
    coordinates: list[int | None] = [*asked, *asked] if len(asked) == 1 else [*asked, None, None]
    entity_ids: list[int] | list[None] = _entities(predictors, entity) or [None] * len(runs)
    shown = [
        transformed(p.model, p.graph, run=str(path), form=symbol(p.model), entity=e, coordinate=i)
        for path, p, i, e in zip(runs, predictors, coordinates, entity_ids, strict=False)
    ]
    drawn = draw_planes(shown)
    written_files = []
    for kind, file in targets.items():
        if kind != "html":
            write_figure(file, written(drawn, kind))
            written_files.append(str(file))
    reports: list[dict[str, Any]] = [
        {
            "run": each.run,
            "form": each.form,
            "entity": each.entity,
            "coordinates": [each.coordinate, each.partner],
            "plane": each.plane,
            "off_plane": each.off_plane,
            "explained_over_entities": each.explained,
        }
        for each in shown
    ]
    if json:
        emit({"files": written_files, "shown": reports})
        return
    for each in shown:
        where = f"coordinates {each.coordinate} and {each.partner}"
        off = "on the plane" if each.off_plane < 1e-6 else f"off the plane by {100 * each.off_plane:.3g} %"
        show(f"{each.run}: {each.entity} under {len(each.z)} relations, {where}: {off}.")
        show(f"  All entities under one relation: a plane explains {100 * each.explained:.0f} % of the variance.")
    show("Drawn: " + ", ".join(written_files))


@figure_app.command("curves", cls=opt.Verb)
def curves(study: StudyArgument, *, out: Folder = Path("figures"), root: Root = None, json: opt.Json = False) -> None:
    """Draw the learning curves of a study, one panel per dataset.

    The curves show the MRR on valid by epoch, or the loss if no run was validated.

    \b
    conjoin figure curves studies/atlas.toml -o figures
    """
    _of_study("curves", study, out=out, root=root, json=json)


@figure_app.command("frontier", cls=opt.Verb)
def frontier(study: StudyArgument, *, out: Folder = Path("figures"), root: Root = None, json: opt.Json = False) -> None:
    """Draw parameters against test MRR for every row of a study.

    \b
    conjoin figure frontier studies/atlas.toml -o figures
    """
    _of_study("frontier", study, out=out, root=root, json=json)


@figure_app.command("pvalues", cls=opt.Verb)
def pvalues(study: StudyArgument, *, out: Folder = Path("figures"), root: Root = None, json: opt.Json = False) -> None:
    """Draw a heat map of p-values between the rows of a study.

    The p-values are of Welch's tests over seeds; one file per dataset. Rows need at least two seeds, and the study file
    needs `comparisons`.

    \b
    conjoin figure pvalues studies/paper.toml -o figures
    """
    _of_study("pvalues", study, out=out, root=root, json=json)


@figure_app.command("patterns", cls=opt.Verb)
def patterns(study: StudyArgument, *, out: Folder = Path("figures"), root: Root = None, json: opt.Json = False) -> None:
    """Draw on which relation patterns tied forms gain or lose.

    Compares every tied row of a study with the row of its untied form that has the same `settings`.

    \b
    conjoin figure patterns studies/pattern-effects.toml -o figures
    """
    _of_study("patterns", study, out=out, root=root, json=json)


def _of_study(plot: Plot, study: Path, *, out: Path, root: Path | None, json: bool) -> None:
    from conjoin.errors import UsageError
    from conjoin.report.build import write_plot
    from conjoin.report.collect import collect
    from conjoin.studies.parse import read_study

    specified = read_study(study)
    place = root or specified.root
    findings = collect(specified, place)
    with ProgressDisplay().watching() as watcher:
        written = write_plot(findings, plot, out, root=place, track=watcher.track)
    files = [str(file) for file in written.files]
    for reason in findings.flaws:
        say(f"left out: {reason}")
    if written.lacking:
        say(written.lacking)
    if not files:
        raise UsageError(
            f"{study}: the runs in {place} are not enough for this plot. It needs {NEEDED[plot]}. "
            f"To see which runs are finished, run conjoin study status {study}"
        )
    if json:
        emit({"files": files})
        return
    show("Drawn: " + ", ".join(files))


def _coordinates(coordinates: list[int] | None, moves: list[RelationMaps]) -> list[int]:
    from conjoin.errors import UsageError

    requested = coordinates or []
    if len(requested) > len(moves):
        raise UsageError(
            f"{len(requested)} coordinates ({', '.join(map(str, requested))}) for {len(moves)} runs. "
            "Give one for all runs, or one for each."
        )
    if len(requested) == len(moves):
        return requested
    return requested * len(moves) if requested else [each.strongest() for each in moves]


def _entities(predictors: list[Predictor], name: str | None) -> list[int] | None:
    return None if name is None else [predictor.graph.entities.find(name) for predictor in predictors]


def _label(predictor: Predictor, move: RelationMaps, *, reverse: bool) -> str:
    names = predictor.graph.relations
    return names.label(move.r % len(names)) + (", reversed" if reverse else "")


def _plain(name: str) -> str:
    """The name of a relation as part of a file name."""
    return "-".join("".join(c if c.isalnum() else " " for c in name).split())[-60:] or "relation"
