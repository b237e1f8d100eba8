"""Knowledge-graph embeddings in complex space, with relation parameters that are shared by conjugation.

    import conjoin

    graph = conjoin.load("atlas")
    model = conjoin.Model(conjoin.form("5star-conj"), graph.n_entities, graph.n_relations, rank=32, seed=0)
    for epoch in conjoin.train(model, graph, conjoin.Recipe(epochs=20)):
        print(epoch.number, epoch.loss)
    print(conjoin.rank(model, graph, "test").mrr())

Names are imported on first use, so `import conjoin` is fast.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conjoin.datasets.load import load as load
    from conjoin.errors import ConjoinError as ConjoinError
    from conjoin.evaluation.rank import rank as rank
    from conjoin.evaluation.ranks import Ranks as Ranks
    from conjoin.forms.base import Form as Form
    from conjoin.forms.notation import FORMS as FORMS
    from conjoin.forms.notation import form as form
    from conjoin.graph.graph import Graph as Graph
    from conjoin.io.read_options import ReadOptions as ReadOptions
    from conjoin.model.ensemble import Ensemble as Ensemble
    from conjoin.model.model import Model as Model
    from conjoin.predict.predictor import Predictor as Predictor
    from conjoin.predict.predictor import open_run as open
    from conjoin.runs.execute import execute as execute
    from conjoin.runs.run import Run as Run
    from conjoin.training.loop import Epoch as Epoch
    from conjoin.training.loop import train as train
    from conjoin.training.recipe import Recipe as Recipe

__version__ = "0.1.0"

_HOME = {
    "ConjoinError": "errors.ConjoinError",
    "Ensemble": "model.ensemble.Ensemble",
    "Epoch": "training.loop.Epoch",
    "FORMS": "forms.notation.FORMS",
    "Form": "forms.base.Form",
    "Graph": "graph.graph.Graph",
    "Model": "model.model.Model",
    "Predictor": "predict.predictor.Predictor",
    "Ranks": "evaluation.ranks.Ranks",
    "ReadOptions": "io.read_options.ReadOptions",
    "Recipe": "training.recipe.Recipe",
    "Run": "runs.run.Run",
    "execute": "runs.execute.execute",
    "form": "forms.notation.form",
    "load": "datasets.load.load",
    "open": "predict.predictor.open_run",
    "rank": "evaluation.rank.rank",
    "train": "training.loop.train",
}

__all__ = [
    "FORMS",
    "ConjoinError",
    "Ensemble",
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
