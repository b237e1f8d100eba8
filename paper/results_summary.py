"""The first lines of docs/results.md: the summary."""

from __future__ import annotations

from paper.results_ablations import RETUNED, TIED
from paper.results_cells import ELSEWHERE, datasets_of, printed_cells
from paper.results_contrast import Evidence
from paper.results_costs import PAIRS, PUBLISHED_SAVING, bench_pair, beyond_scatter, percent, share_saved, spread

from conjoin.report.formatting import signed
from conjoin.report.stats import one_digit


def what_sharing_saves(evidence: Evidence) -> list[str]:
    """Bytes, time and quality, and what half the rank does instead."""
    paper, rows = evidence.paper, evidence.paper.study.rows
    shares = {whole: {name: share_saved(paper, name, whole, tied) for name in paper.graphs} for whole, tied in PAIRS}
    of_all = [f"{spread(each, percent)} of {rows[whole].label}" for whole, each in shares.items()]
    pairs = {name: bench_pair(evidence.benches, paper, name) for name in PUBLISHED_SAVING}
    wide, plain, ours = (beyond_scatter(pairs, key) for key in ("wide_seconds", "plain_seconds", "seconds_per_epoch"))
    quality = [f"{rows[tied].label.rstrip('∇')} {_differences(evidence, tied, whole)}" for tied, whole in TIED]
    return [
        f"- **Bytes.** Tying saves half of the relations' numbers. Of a whole model that is {' and '.join(of_all)}.",
        "- **Time.** Time per epoch that 5★ε saves against 5★E. With entities of equal width: with Conjoin's kernels"
        f" {ours}; in plain PyTorch {plain}. The paper prints {min(PUBLISHED_SAVING.values())} to"
        f" {max(PUBLISHED_SAVING.values())} %; in plain PyTorch with the wider entities of its code we see {wide}.",
        "- **Quality.** MRR (mean reciprocal rank) of the tied form minus that of the untied form, both with the"
        " settings of the untied form:"
        f" {'; '.join(quality)}. With settings tuned for it: 5★ε {_differences(evidence, *RETUNED)}.",
        "- **Alternative.** ComplEx at half its rank has half of all numbers, of entities too. Its MRR minus that of"
        f" ComplEx is {_differences(evidence, 'complex-half', 'complex')}.",
    ]


def how_sure(evidence: Evidence) -> str:
    """How many seeds the numbers rest on, and how far seeds scatter."""
    here, elsewhere = printed_cells(evidence.paper)
    ran = [outcome for outcome in here if outcome.runs]
    once = sum(len(outcome.runs) == 1 for outcome in ran)
    scatter = [o.published.mrr_pm for o in here if o.published is not None and o.published.mrr_pm is not None]
    return (
        f"- **How sure.** {_share(len(ran), len(here))} printed cells on {datasets_of(here)} were run, {once} of them"
        f" with one seed, and none of the {len(elsewhere)} on {datasets_of(elsewhere)}. By the paper's"
        f" deviations, seeds scatter by {one_digit(min(scatter))} to {one_digit(max(scatter))}; treat a difference of"
        " that size as zero."
    )


def _share(count: int, of: int) -> str:
    return f"All {of}" if count == of else f"{count} of the {of}"


def _differences(evidence: Evidence, a: str, b: str) -> str:
    study = evidence.paper.study
    here = [name for name in study.datasets_of(study.rows[a]) if name not in ELSEWHERE]
    found = {name: each.difference for name in here if (each := evidence.contrast(name, a, b))}
    rest = ", ".join(name for name in here if name not in found) if found else ""
    return spread(found, signed) + (f" ({rest} not yet run)" if rest else "")
