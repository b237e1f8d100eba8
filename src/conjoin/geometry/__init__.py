"""Figures of trained relations: the Riemann sphere and the plane of a tie."""
