"""Knowledge-graph embeddings in complex space, with relation parameters shared by conjugation.

    import conjoin

    graph = conjoin.load("atlas")
    model = conjoin.Model(conjoin.form("5star-conj"), graph.n_entities, graph.n_relations, rank=32, seed=0)
    for epoch in conjoin.train(model, graph, conjoin.Recipe(epochs=20)):
        print(epoch.number, epoch.loss)
    print(conjoin.rank(model, graph, "test").mrr())

Names are imported on first use, so that `import conjoin` is instant.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conjoin.algebra.forms import Form as Form
    from conjoin.algebra.notation import FORMS as FORMS
    from conjoin.algebra.notation import form as form
    from conjoin.errors import ConjoinError as ConjoinError
    from conjoin.graph.files.report import ReadOptions as ReadOptions
    from conjoin.graph.graph import Graph as Graph
    from conjoin.graph.named.datasets import load as load
    from conjoin.learn.recipe import Recipe as Recipe
    from conjoin.learn.train import Epoch as Epoch
    from conjoin.learn.train import train as train
    from conjoin.model.model import Model as Model
    from conjoin.ranking.rank import rank as rank
    from conjoin.ranking.ranks import Ranks as Ranks
    from conjoin.serve.predictor import Predictor as Predictor
    from conjoin.serve.predictor import open_run as open
    from conjoin.study.execute import execute as execute
    from conjoin.study.run import Run as Run

__version__ = "0.1.0"

_HOME = {
    "ConjoinError": "errors.ConjoinError",
    "Epoch": "learn.train.Epoch",
    "FORMS": "algebra.notation.FORMS",
    "Form": "algebra.forms.Form",
    "Graph": "graph.graph.Graph",
    "Model": "model.model.Model",
    "Predictor": "serve.predictor.Predictor",
    "Ranks": "ranking.ranks.Ranks",
    "ReadOptions": "graph.files.report.ReadOptions",
    "Recipe": "learn.recipe.Recipe",
    "Run": "study.run.Run",
    "execute": "study.execute.execute",
    "form": "algebra.notation.form",
    "load": "graph.named.datasets.load",
    "open": "serve.predictor.open_run",
    "rank": "ranking.rank.rank",
    "train": "learn.train.train",
}

__all__ = [
    "FORMS",
    "ConjoinError",
    "Epoch",
    "Form",
    "Graph",
    "Model",
    "Predictor",
    "Ranks",
    "ReadOptions",
    "Recipe",
    "Run",
    "__version__",
    "execute",
    "form",
    "load",
    "open",
    "rank",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'conjoin' has no attribute {name!r}")
    module, _, attribute = _HOME[name].rpartition(".")
    value = getattr(import_module(f"conjoin.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name, value in globals().items() if isinstance(value, ModuleType))})
