"""What one process computes alone and several compute together, so that the results can be compared.

As a program, started as one of several processes of which the first one writes:
python -m tests.distributed.work FOLDER REPLICAS NAMES [CHECKPOINT …]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from conjoin.datasets.load import load, locate
from conjoin.errors import Diverged
from conjoin.evaluation.rank import rank
from conjoin.graph.graph import Graph
from conjoin.model.model import Model
from conjoin.predict.mining import mine
from conjoin.predict.predictor import Predictor
from conjoin.runtime.distributed import current, init_mesh, joined
from conjoin.training.checkpoint import load_checkpoint, save_model
from conjoin.training.checkpoint_distributed import load_shards, save_shards
from conjoin.training.loop import Training, train
from conjoin.training.objective import Objective, loss
from conjoin.training.recipe import Recipe
from conjoin.training.steps.dense import gradients

ENTITIES, RELATIONS = 13, 3
FORMS = ("complex", "5star-conj")
FEW = 400
"""Test triples of WN18RR that are ranked."""


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def model_of(form: str, *, budget: int | None = 400, entities: int = ENTITIES) -> Model:
    return Model(form, entities, RELATIONS, rank=4, seed=3, scale=0.5, dtype=torch.float64, budget=budget)


def whole(model: Model, held: Tensor) -> Tensor:
    """A tensor of the table's shape from all who hold a part."""
    return torch.cat(list(model.entities.blocks(held.detach(), 3)))


def small_graph() -> Graph:
    source = torch.Generator().manual_seed(1)
    triples = torch.stack([torch.randint(n, (60,), generator=source) for n in (ENTITIES, RELATIONS, ENTITIES)], dim=1)
    names = [(f"e{h:02d}", f"r{r}", f"e{t:02d}") for h, r, t in torch.unique(triples, dim=0).tolist()]
    rest = [(f"e{i:02d}", "r0", f"e{(i + 1) % ENTITIES:02d}") for i in range(ENTITIES)]
    return Graph.from_triples([*names, *rest], [("e00", "r1", "e05"), ("e03", "r2", "e12")], [("e07", "r0", "e11")])


def batch() -> tuple[Tensor, Tensor, Tensor]:
    h, r, t = torch.tensor([[0, 1, 12], [12, 4, 0], [6, 2, 7], [7, 5, 6], [6, 0, 6], [0, 3, 12], [3, 3, 9]]).unbind(1)
    return h, r, t


def losses_and_gradients() -> dict[str, Tensor]:
    found = {}
    for form in FORMS:
        for entities in (ENTITIES, 14, 129):
            model, again = (model_of(form, entities=entities) for _ in range(2))
            recipe = Recipe(n3=0.1, f2=0.2)
            name = f"{form} {entities}"
            found[f"{name} costs"] = gradients(model, *batch(), Objective.of(recipe))
            value = loss(again, *batch(), recipe)
            value.backward()  # type: ignore[no-untyped-call]
            found[f"{name} loss"] = value.detach()
            for kind, each in (("explicit", model), ("autograd", again)):
                assert each.entities.weight.grad is not None
                assert each.relations.grad is not None
                found[f"{name} {kind} entities"] = whole(each, each.entities.weight.grad)
                found[f"{name} {kind} relations"] = each.relations.grad
    return found


def verbs() -> dict[str, Tensor]:
    model = model_of("complex")
    table, q = model.entities, numbers(5, 8, seed=4)
    rounded = model_of("complex", entities=200)
    with torch.no_grad():
        rounded.entities.weight.mul_(2).round_()
    t, hidden = torch.tensor([0, 12, 5, 5, 7]), (torch.tensor([0, 0, 1, 3, 3]), torch.tensor([3, 0, 6, 5, 12]))
    q_again = q.clone().requires_grad_()
    table.scores(q_again).square().sum().backward()  # type: ignore[no-untyped-call]
    assert q_again.grad is not None
    assert table.weight.grad is not None
    found = {
        "rows": table.rows(torch.tensor([12, 0, 6, 7, 12])),
        "scores": table.scores(q).detach(),
        "scores dq": q_again.grad,
        "scores d table": whole(model, table.weight.grad),
        "cosines": table.cosines(q[0]),
        "parameters": torch.tensor(model.n_parameters),
    }
    for k in (1, 5, 13, 40):
        values, ids = table.best(q, k, hidden if k < 10 else None)
        found |= {f"best {k} values": values, f"best {k} ids": ids}
    for name, each in (("real", table), ("whole", rounded.entities)):
        standing = each.standing(q.round() if name == "whole" else q, t, hidden)
        found |= {f"{name} {part}": getattr(standing, part) for part in standing._fields}
    with torch.no_grad():
        table.put(12, torch.full((1, 8), torch.nan, dtype=torch.float64))
    for verb in (lambda: table.standing(q, t, hidden), lambda: table.best(q, 3)):
        found[f"diverged {len(found)}"] = torch.tensor(_diverges(verb))
    return found


LINKED = ("distmult", "transe", "transe-squared", "transh", "TransE(distance=l1)", "TransE(distance=squared-bias)")


def linked() -> dict[str, Tensor]:
    """Forms with links other than the dot product, and one form of real numbers."""
    found: dict[str, Tensor] = {}
    for form in LINKED:
        for negatives in (0, 6):
            training = training_of(form, epochs=2, negatives=negatives)
            losses = torch.tensor([epoch.loss for epoch in training], dtype=torch.float64)
            model, name = training.model, f"{form} {negatives}"
            found |= {f"{name} losses": losses, f"{name} table": whole(model, model.entities.weight)}
        h, r, t = batch()
        q = model.query(h, r).detach().requires_grad_()
        scores = model.entities.scores(q)
        scores.square().sum().backward()  # type: ignore[no-untyped-call]
        assert q.grad is not None
        none = torch.empty(0, dtype=torch.long)
        standing = model.entities.standing(q.detach(), t, (none, none))
        found |= {f"{form} scores": scores.detach(), f"{form} dq": q.grad, f"{form} better": standing.better}
        found |= {f"{form} score": model.score(h, r, t).detach(), f"{form} best": model.entities.best(q.detach(), 3)[0]}
        found[f"{form} cosines"] = model.entities.cosines(model.entities.rows(torch.tensor([5]))[0])
    return found


def _diverges(verb: Callable[[], object]) -> bool:
    try:
        verb()
    except Diverged:
        return True
    return False


def training_of(form: str = "5star-conj", *, epochs: int = 3, **settings: object) -> Training:
    graph = small_graph()
    recipe = Recipe.from_mapping({"epochs": epochs, "batch": 16, "lr": 0.05, "validate_every": 2, **settings})
    return train(model_of(form), graph, recipe, seed=5)


def trained() -> dict[str, Tensor]:
    found = {}
    for optimizer in ("adagrad", "adam", "sgd"):
        for negatives in (0, 6):
            training = training_of(epochs=2, optimizer=optimizer, negatives=negatives)
            name = f"{optimizer} {negatives}"
            found[f"{name} losses"] = torch.tensor([epoch.loss for epoch in training], dtype=torch.float64)
            found[f"{name} table"] = whole(training.model, training.model.entities.weight)
            found[f"{name} relations"] = training.model.relations.detach()
    return found


def objectives() -> dict[str, Tensor]:
    """A term that sees products of rows, and weights of targets, over the whole table and over a sample."""
    found = {}
    for negatives in (0, 6):
        settings = {"terms": {"dura": 0.1}, "target_weights": "degree", "negatives": negatives}
        training = training_of("complex-conj", epochs=2, **settings)
        epochs = list(training)
        for name in ("nll", "dura"):
            found[f"{negatives} {name}"] = torch.tensor([epoch.terms[name] for epoch in epochs], dtype=torch.float64)
        found[f"{negatives} table"] = whole(training.model, training.model.entities.weight)
        found[f"{negatives} relations"] = training.model.relations.detach()
    return found


def umls() -> dict[str, Tensor]:
    """MRR after training in float64: rounding does not decide about a rank."""
    if locate("umls") is None:
        return {}
    graph = load("umls")
    model = Model("complex-conj", graph.n_entities, graph.n_relations, rank=4, dtype=torch.float64)
    for _ in train(model, graph, Recipe(epochs=2, batch=1000)):
        pass
    found = rank(model, graph, "test")
    return {"umls better": torch.from_numpy(found.better), "umls mrr": torch.tensor(found.mrr(), dtype=torch.float64)}


def wn18rr() -> dict[str, Tensor]:
    """Standings of a random model with many equal rows, in float32."""
    if locate("wn18rr") is None:
        return {}
    graph = load("wn18rr")
    few = Graph(graph.entities, graph.relations, graph.train, graph.valid, graph.test[:FEW], name="few")
    model = Model("5star-conj", few.n_entities, few.n_relations, rank=4, scale=1.0)
    twins = model.entities.rows(torch.arange(500))
    for start in range(5_000, few.n_entities - 500, 5_000):
        model.entities.put(start, twins)
    found = rank(model, few, "test")
    return {"wn18rr better": torch.from_numpy(found.better), "wn18rr tied": torch.from_numpy(found.tied)}


def answers() -> dict[str, Tensor]:
    """Ask, score, similar and mine, as the numbers they give and the ids they name."""
    graph = small_graph()
    predictor = Predictor(model_of("5star-conj"), graph)
    triples = [("e00", "r1", "e05"), ("e12", "r0", "e00")]
    found = {
        "ask": predictor.ask("e03", "r1", k=4),
        "candidates": predictor.ask(None, "r2", "e12", candidates=["e00", "e05", "e11"]),
        "relations": predictor.ask("e00", None, "e05"),
        "similar": predictor.similar("e12", k=5),
    }
    told = {f"{name} scores": torch.tensor([a.score for a in each]).double() for name, each in found.items()}
    told |= {f"{name} ids": torch.tensor([int(a.entity[1:]) for a in each]) for name, each in found.items()}
    mined = list(mine(predictor, n=8))
    told["mined"] = torch.tensor([(int(m.head[1:]), int(m.relation[1:]), int(m.tail[1:])) for m in mined])
    told["ranks"] = torch.tensor([scored.rank for scored in predictor.score(triples)])
    return told


ALL = {
    "answers": answers,
    "verbs": verbs,
    "losses": losses_and_gradients,
    "trained": trained,
    "objectives": objectives,
    "linked": linked,
    "umls": umls,
    "wn18rr": wn18rr,
}


def resumed(start: Path) -> dict[str, Tensor]:
    """Go on from a checkpoint, of one process (a file) or of several (a folder)."""
    training = training_of(epochs=4)
    (load_shards if start.is_dir() else load_checkpoint)(start, training)
    losses = torch.tensor([epoch.loss for epoch in training], dtype=torch.float64)
    return {"losses": losses, "table": whole(training.model, training.model.entities.weight)}


def halfway(optimizer: str = "adagrad") -> Training:
    training = training_of(epochs=4, optimizer=optimizer)
    next(training)
    next(training)
    return training


def main() -> None:
    folder, replicas, wanted, *starts = sys.argv[1:]
    with joined():
        init_mesh(int(replicas))
        for name in wanted.split(","):
            keep(Path(folder) / name, ALL[name]())
        for start in starts:
            keep(Path(folder) / f"resumed-{Path(start).name}", resumed(Path(start)))
        for optimizer in ("adagrad", "adam"):
            half = halfway(optimizer)
            save_shards(Path(folder) / f"half-{optimizer}", half)
            save_model(Path(folder) / f"{optimizer}.safetensors", half.model, half.model.state_dict(), {"epoch": 2})
    left = [thread for thread in threads() if "gloo" in thread]
    assert not left, f"the process group lives on in {left}: its threads may abort the process when it ends"


def threads() -> list[str]:
    """Names of this process's threads, where Linux tells them."""
    return [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]


def keep(path: Path, found: dict[str, Tensor]) -> None:
    if current().is_first:
        save_file({key: tensor.contiguous() for key, tensor in found.items()}, path.with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
