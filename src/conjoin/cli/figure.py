"""Verbs that draw: figure sphere and entities, of runs; figure curves, frontier, pvalues and patterns, of a study."""

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
    help="Pictures of runs and of studies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
SecondRun = Annotated[
    Path | None, typer.Argument(metavar="[RUN2]", help="A second run, drawn beside the first at the same scale.")
]
SphereOut = Annotated[
    Path | None,
    typer.Option(
        "-o", "--out", help="A file ending in .png, .svg, .pdf or .html; without an ending, all of them side by side."
    ),
]
EntitiesOut = Annotated[
    Path | None,
    typer.Option(
        "-o", "--out", help="A file ending in .png, .svg or .pdf; without an ending, all of them side by side."
    ),
]
Folder = Annotated[Path, typer.Option("-o", "--out", help="Folder for the SVG and PDF files.")]
Coordinates = Annotated[
    list[int] | None,
    typer.Option("--coordinate", help="Which complex coordinate, from 0; repeat it to give the second run its own."),
]


@figure_app.command("sphere")
def sphere(
    run: opt.RunArgument,
    second: SecondRun = None,
    *,
    relation: Annotated[str, typer.Option(help="A relation's name or label.")],
    coordinate: Coordinates = None,
    entity: Annotated[
        str | None,
        typer.Option(
            help="Draw the circle around this one.  [default: of the frequent heads, the one that moves most]"
        ),
    ] = None,
    iterates: Annotated[int, typer.Option(min=1, max=20, help="Images and inverse images.")] = 5,
    reverse: Annotated[bool, typer.Option("--reverse", help="The reciprocal relation: from tails to heads.")] = False,
    as_mobius: Annotated[
        bool,
        typer.Option(
            "--as-mobius", help="Of a run with quotient=phase or aligned, draw the Möbius map of its a, b, c, d."
        ),
    ] = False,
    out: SphereOut = None,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Draw what a relation does to one coordinate, on the Riemann sphere.

    A circle around an entity in blue, its images under the relation's Möbius map in green, under the inverse in red,
    the flow between them in grey, the fixed points marked. Without --coordinate it is the one that adds most to the
    scores of the relation's training facts. The HTML file turns, plays the flow and needs nothing else.

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
    chosen = _coordinates(coordinate, moves)
    entities = _entities(predictors, entity) or [best_head(list(zip(moves, chosen, strict=True)))] * len(moves)
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
        for path, predictor, move, i, e in zip(runs, predictors, moves, chosen, entities, strict=True)
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


@figure_app.command("entities")
def entities(
    run: opt.RunArgument,
    second: SecondRun = None,
    *,
    entity: Annotated[str | None, typer.Option(help="Which entity.  [default: the one with most facts]")] = None,
    coordinate: Coordinates = None,
    out: EntitiesOut = None,
    weights: opt.Weights = None,
    json: opt.Json = False,
) -> None:
    """Draw one entity as every relation transforms it, for ComplEx against Complεx, with the tie's constraint.

    With a2 = conj(a1), coordinates i and i + rank/2 of the transformed entity obey Re z_j = a Re z_i + b Im z_i, with a
    and b from the entity alone: the points lie in a plane. Without the tie they leave it. All entities under *one*
    relation are not confined so, in either form; the number printed says how little of Re z_j the plane explains there.

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
        raise UsageError("this figure is written as png, svg or pdf; the explorer's Geometry page turns spheres")
    predictors = [open_run(each, weights=weights) for each in runs]
    given = coordinate or []
    chosen: list[int | None] = [*given, *given] if len(given) == 1 else [*given, None, None]
    named: list[int] | list[None] = _entities(predictors, entity) or [None] * len(runs)
    shown = [
        transformed(p.model, p.graph, run=str(path), form=symbol(p.model), entity=e, coordinate=i)
        for path, p, i, e in zip(runs, predictors, chosen, named, strict=False)
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


@figure_app.command("curves")
def curves(study: StudyArgument, *, out: Folder = Path("figures"), root: Root = None, json: opt.Json = False) -> None:
    """Draw the learning curves of a study: MRR on valid by epoch, a panel per dataset.

    Where nothing was validated it is the loss.

    \b
    conjoin figure curves studies/atlas.toml -o figures
    """
    _of_study("curves", study, out=out, root=root, json=json)


@figure_app.command("frontier")
def frontier(study: StudyArgument, *, out: Folder = Path("figures"), root: Root = None, json: opt.Json = False) -> None:
    """Draw size against quality: the parameters and the test MRR of every row of a study.

    \b
    conjoin figure frontier studies/atlas.toml -o figures
    """
    _of_study("frontier", study, out=out, root=root, json=json)


@figure_app.command("pvalues")
def pvalues(study: StudyArgument, *, out: Folder = Path("figures"), root: Root = None, json: opt.Json = False) -> None:
    """Draw a heat map of the p-values of Welch's tests between rows of a study, one file per dataset.

    Rows need two seeds or more, and the study `comparisons`.

    \b
    conjoin figure pvalues studies/paper.toml -o figures
    """
    _of_study("pvalues", study, out=out, root=root, json=json)


@figure_app.command("patterns")
def patterns(study: StudyArgument, *, out: Folder = Path("figures"), root: Root = None, json: opt.Json = False) -> None:
    """Draw on which relation patterns the tied forms of a study gain or lose against their originals.

    A tied row is compared with the row of its original that has the same `settings`.

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
            f"{study}: its runs under {place} give nothing to draw. This plot needs {NEEDED[plot]};"
            " conjoin study status says which runs are finished"
        )
    if json:
        emit({"files": files})
        return
    show("Drawn: " + ", ".join(files))


def _coordinates(wanted: list[int] | None, moves: list[RelationMaps]) -> list[int]:
    from conjoin.errors import UsageError

    given = wanted or []
    if len(given) > len(moves):
        raise UsageError(f"{len(given)} coordinates for {len(moves)} runs: give one for all, or one for each")
    if len(given) == len(moves):
        return given
    return given * len(moves) if given else [each.strongest() for each in moves]


def _entities(predictors: list[Predictor], name: str | None) -> list[int] | None:
    return None if name is None else [predictor.graph.entities.find(name) for predictor in predictors]


def _label(predictor: Predictor, move: RelationMaps, *, reverse: bool) -> str:
    names = predictor.graph.relations
    return names.label(move.r % len(names)) + (", reversed" if reverse else "")


def _plain(name: str) -> str:
    """A relation's name as part of a file's."""
    return "-".join("".join(c if c.isalnum() else " " for c in name).split())[-60:] or "relation"
