"""Complex parameters drawn or written down, and what a form makes of them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from conjoin.forms.notation import parse
from conjoin.geometry.mobius import Complexes


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(seed))


def row(*slots: Tensor) -> Tensor:
    """The stored row of complex slots: all real parts, then all imaginary parts."""
    z = torch.cat(slots, dim=-1)
    return torch.cat([z.real, z.imag], dim=-1)


def query(text: str, h: Tensor, *slots: Tensor) -> Tensor:
    """q as a complex tensor."""
    form = parse(text)
    q = form.query(row(h), form.unfold(row(*slots)))
    return torch.complex(*q.chunk(2, dim=-1))


def values_of(points: Complexes) -> Complexes:
    """Points as complex numbers, (…, 2) to (…); infinity becomes inf."""
    x, w = points[..., 0], points[..., 1]
    far = np.abs(w) <= 1e-300 + 1e-16 * np.abs(x)
    return np.asarray(np.where(far, complex(np.inf), x / np.where(far, 1, w)))
