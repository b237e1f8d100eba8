"""What ties save of a training's memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from conjoin.planning.memory_model import REAL, STATES, PlannedSetting, PlannedSizes


@dataclass(frozen=True)
class TieSavings:
    """What ties save against the same family without ties, in training (table, optimiser state and gradient)."""

    relation_bytes: int
    untied_relation_bytes: int
    saved_bytes: int
    share_of_relations: float
    share_of_everything: float


def tie_savings(sizes: PlannedSizes, setting: PlannedSetting) -> TieSavings:
    """Ties concern relations only, and the entity table is usually nearly everything: both shares are given."""
    form = setting.form
    untied = replace(form, **dict.fromkeys(form.SLOTS))
    copies = 1 + STATES[setting.optimizer] + 1
    own, whole = (f.relation_rows(sizes.relations) * f.relation_width(setting.rank) * REAL for f in (form, untied))
    entities = sizes.entities * form.entity_width(setting.rank) * REAL
    saved = whole - own
    return TieSavings(own, whole, copies * saved, saved / whole, saved / (entities + whole))
