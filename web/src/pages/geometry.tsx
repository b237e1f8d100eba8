/** Geometry: what will stand here, and where its pictures are until then. */
import type { VNode } from "preact";
import type { PageProps } from "../app";

export function GeometryPage({ run, link }: PageProps): VNode {
  return (
    <>
      <h1>Geometry</h1>
      <div class="coming card">
        <svg viewBox="0 0 200 200" aria-hidden="true">
          <circle cx="100" cy="100" r="80" />
          <ellipse cx="100" cy="100" rx="80" ry="24" />
          <ellipse cx="100" cy="100" rx="30" ry="80" class="upper" />
          <circle cx="124" cy="52" r="4" class="upper dot" />
          <circle cx="124" cy="148" r="4" class="lower dot" />
        </svg>
        <div>
          <p class="lead">The Riemann sphere with a relation’s Möbius map.</p>
          <p>In 5★ forms a relation moves every coordinate of the head over the sphere. This page will draw that motion for each relation of <b>{run.name}</b>: a curve and its image, the iterates and the inverse, the fixed points, and the tied form beside the free one.</p>
          <p class="soft">This version of the service has no geometry to draw yet. Until then: <a href={link("relations")}>what each relation is like</a>.</p>
        </div>
      </div>
    </>
  );
}
