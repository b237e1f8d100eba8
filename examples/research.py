# %% [markdown]
# # Does tying cost quality?
# Train a form and its tied form with three seeds each, compare them on the same questions, and plot.
#
#     python examples/research.py [FOLDER]
#
# Editors that support `# %%` cells run it cell by cell. It needs `conjoin[study]`.

# %% A graph: facts of an invented village. All facts about a pair of entities are in the same split.
import sys
from pathlib import Path

import matplotlib.pyplot as plt

import conjoin
from conjoin.report.stats import Answers, Moments, paired, welch
from village import village, write_csv

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "research")
OUT.mkdir(parents=True, exist_ok=True)
write_csv(OUT / "village.csv", village(families=40))
graph = conjoin.load(OUT / "village.csv")
print(f"{len(graph.train)} / {len(graph.valid)} / {len(graph.test)} facts, {graph.n_entities} entities")

# %% Train. A run folder contains settings, curve, weights and ranks. Finished runs are not repeated.
FORMS, SEEDS = ("5star", "5star-conj"), (0, 1, 2)
recipe = conjoin.Recipe(epochs=24, batch=200, n3=0.02, validate_every=4)
runs = {}
for form in FORMS:
    for seed in SEEDS:
        run = conjoin.Run.of(graph, form, rank=16, recipe=recipe, seed=seed)
        runs[form, seed] = conjoin.execute(run, graph, OUT / f"{form}-{seed}")
        print(f"{form} seed {seed}: test MRR {runs[form, seed].result['test']['mrr']:.3f}")

# %% Compare. Welch's test is about other seeds; the paired test is about other questions.
mrr = {form: Moments.of([runs[form, seed].result["test"]["mrr"] for seed in SEEDS]) for form in FORMS}
answers = {form: Answers.of(runs[form, seed].ranks("test") for seed in SEEDS) for form in FORMS}
full, tied = FORMS
test = paired(answers[tied], answers[full])
assert test is not None
for form in FORMS:
    print(f"{form}: {runs[form, 0].result['relation_parameters']:,} numbers in relations, MRR {mrr[form].mean:.3f}")
print(f"over seeds: p = {welch(mrr[tied], mrr[full]):.2g} (Welch, {len(SEEDS)} seeds each)")
print(
    f"over questions: {tied} − {full} = {test.difference:+.3f}, 95 % interval {test.interval.low:+.3f} to"
    f" {test.interval.high:+.3f}, p = {test.p:.2g} (paired, {test.triples} facts asked in both directions)"
)

# %% Plot the MRR on valid by epoch.
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for form, colour in zip(FORMS, ("#a23b00", "#ec7a21"), strict=True):
    for seed in SEEDS:
        points = [(e["epoch"], e["valid"]["mrr"]) for e in runs[form, seed].events if "valid" in e]
        axes.plot(*zip(*points, strict=True), color=colour, label=form if seed == 0 else None)
axes.set(xlabel="epoch", ylabel="validation MRR", xticks=range(4, recipe.epochs + 1, 4))
axes.legend(frameon=False)
figure.savefig(OUT / "curves.png", dpi=150)
print(f"curves in {OUT / 'curves.png'}")
