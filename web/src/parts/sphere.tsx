/** The canvas of one sphere. It follows the scene, the camera, the theme and the time. */
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { colour } from "../draw/colours";
import { type Camera, type Colours, type Scene, Sphere } from "../draw/sphere";
import type { Theme } from "../theme";

interface Props {
  readonly scene: Scene;
  readonly camera: Camera;
  readonly theme: Theme;
  readonly time: number | null;
  readonly ready: (sphere: Sphere | null) => void;
}

const NAMES = { blue: "sphere-blue", green: "sphere-green", red: "sphere-red", ink: "ink", faint: "sphere-edge", way: "sphere-way", ball: "sphere-ball", paper: "surface" };

function colours(): Colours {
  return Object.fromEntries(Object.entries(NAMES).map(([key, name]) => [key, colour(name)])) as unknown as Colours;
}

export function SphereCanvas({ scene, camera, theme, time, ready }: Props): VNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const sphere = useRef<Sphere | null>(null);
  useEffect(() => {
    if (!canvas.current) return;
    const made = new Sphere(canvas.current, scene, camera, colours());
    sphere.current = made;
    ready(made);
    return () => {
      made.end();
      sphere.current = null;
      ready(null);
    };
  }, [scene]);
  useEffect(() => sphere.current?.look(camera), [scene, camera]);
  useEffect(() => sphere.current?.paint(colours()), [scene, theme]);
  useEffect(() => sphere.current?.at(time), [scene, time]);
  const { form, relation, coordinate, words } = scene;
  return <canvas ref={canvas} tabIndex={0} role="img" aria-label={`${form}, ${relation}, coordinate ${coordinate}: ${words}. Arrow keys turn, 0 resets.`} />;
}
