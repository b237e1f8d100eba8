"""From the numbers of a trained relation to pictures: the Riemann sphere, the plane of a tie."""
