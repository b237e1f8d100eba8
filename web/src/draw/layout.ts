/**
 * Positions for a small graph: springs and repulsion from a deterministic start. Springs of well-connected
 * nodes are weaker, so that dense parts open up.
 */
export interface Spot { x: number; y: number }

const STEPS = 300;

export function layout(hops: readonly number[], edges: readonly (readonly [number, number])[]): Spot[] {
  const n = hops.length;
  const seen = new Map<number, number>();
  const spots = hops.map((hop) => {
    const i = seen.get(hop) ?? 0;
    seen.set(hop, i + 1);
    const among = hops.filter((other) => other === hop).length;
    const turn = (2 * Math.PI * i) / among + hop;
    return { x: hop * Math.cos(turn), y: hop * Math.sin(turn) };
  });
  const ties = new Array<number>(n).fill(0);
  for (const [i, j] of edges) {
    ties[i] = (ties[i] ?? 0) + 1;
    ties[j] = (ties[j] ?? 0) + 1;
  }
  const ideal = 1.6 / Math.sqrt(Math.max(n, 4));
  for (let step = 0; step < STEPS; step++) {
    const reach = 0.12 * (1 - step / STEPS) + 0.002;
    const force = spots.map(() => ({ x: 0, y: 0 }));
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < i; j++) pull(spots, force, i, j, (d) => -(ideal * ideal) / d);
    }
    for (const [i, j] of edges) {
      const shared = Math.sqrt((ties[i] ?? 1) * (ties[j] ?? 1));
      pull(spots, force, i, j, (d) => (3 * d * d) / (ideal * shared));
    }
    spots.forEach((spot, i) => {
      const f = force[i] as Spot;
      f.x -= 0.15 * spot.x * ideal;
      f.y -= 0.15 * spot.y * ideal;
      const size = Math.hypot(f.x, f.y);
      if (i === 0 || size === 0) return;
      const move = Math.min(size, reach) / size;
      spot.x += f.x * move;
      spot.y += f.y * move;
    });
  }
  return spots;
}

function pull(spots: readonly Spot[], force: readonly Spot[], i: number, j: number, strength: (distance: number) => number): void {
  const [a, b] = [spots[i] as Spot, spots[j] as Spot];
  const [fa, fb] = [force[i] as Spot, force[j] as Spot];
  const dx = b.x - a.x || 1e-3 * (j + 1);
  const dy = b.y - a.y || 1e-3 * (i + 1);
  const distance = Math.max(Math.hypot(dx, dy), 0.01);
  const f = strength(distance) / distance;
  fa.x += f * dx;
  fa.y += f * dy;
  fb.x -= f * dx;
  fb.y -= f * dy;
}
