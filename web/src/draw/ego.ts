/** The ego graph, drawn by sigma. */
import { MultiDirectedGraph } from "graphology";
import Sigma from "sigma";
import { EdgeArrowProgram } from "sigma/rendering";
import type { EntityView } from "../client";
import { brief, words } from "../numbers";
import { colour } from "./colours";
import { layout } from "./layout";

/** Horizontal stretch: the drawing area is wider than high, and labels need width. */
const STRETCH = 1.4;

/** Pixels from one label to the next below it. */
const LINE = 16;

interface Written { readonly x: number; readonly y: number; readonly width: number }

/** The position of a label: right of its dot, or left of it at the right edge. */
function beside({ x, y, size }: { x: number; y: number; size: number }, width: number, room: number): Written {
  const from = x + size + 4;
  return { x: from + width > room ? x - size - 4 - width : from, y, width };
}

/** Draw the graph. Labels are written in order, the centre first and then by degree; overlapping labels are skipped. */
export function drawEgo(room: HTMLElement, { nodes, edges }: EntityView["graph"], open: (name: string) => void): () => void {
  const place = new Map(nodes.map((node, i) => [node.name, i]));
  const pairs = edges.map((edge) => [place.get(edge.source) ?? 0, place.get(edge.target) ?? 0] as const);
  const spots = layout(nodes.map((node) => node.hops), pairs);
  const [ink, surface, line, accent, second, soft] = ["ink", "surface", "line-strong", "accent", "second", "soft"].map(colour) as [string, string, string, string, string, string];
  const most = Math.max(...nodes.map((node) => node.degree), 1);

  const graph = new MultiDirectedGraph();
  for (const node of [...nodes].sort((a, b) => a.hops - b.hops || b.degree - a.degree)) graph.addNode(node.name, {
    x: STRETCH * (spots[place.get(node.name) ?? 0]?.x ?? 0),
    y: spots[place.get(node.name) ?? 0]?.y ?? 0,
    label: brief(node.label),
    far: node.hops > 1,
    size: node.hops === 0 ? 11 : 4 + 5 * Math.sqrt(node.degree / most),
    color: node.hops === 0 ? second : node.hops === 1 ? accent : soft,
    forceLabel: true,
  });
  for (const edge of edges) {
    graph.addEdge(edge.source, edge.target, { label: words(edge.relation.label), color: line, size: 1.4 });
  }

  let pointed: string | null = null;
  let written: Written[] = [];
  const near = (node: string): boolean => pointed === null || node === pointed || graph.areNeighbors(node, pointed);
  const sigma = new Sigma(graph, room, {
    allowInvalidContainer: true,
    defaultEdgeType: "arrow",
    edgeProgramClasses: { arrow: EdgeArrowProgram },
    renderEdgeLabels: true,
    labelFont: getComputedStyle(document.body).fontFamily,
    labelSize: 13,
    labelColor: { color: ink },
    labelDensity: 0,
    edgeLabelFont: getComputedStyle(document.body).fontFamily,
    edgeLabelSize: 12,
    edgeLabelColor: { color: soft },
    stagePadding: 44,
    defaultDrawNodeLabel: (context, node, settings) => {
      if (!node.label) return;
      context.font = `${settings.labelWeight} ${settings.labelSize}px ${settings.labelFont}`;
      const spot = beside(node, context.measureText(node.label).width, room.clientWidth);
      if (written.some((other) => other.x < spot.x + spot.width && spot.x < other.x + other.width && Math.abs(other.y - spot.y) < LINE)) return;
      written.push(spot);
      context.lineWidth = 4;
      context.lineJoin = "round";
      context.strokeStyle = surface;
      context.fillStyle = ink;
      context.strokeText(node.label, spot.x, spot.y + 4.5);
      context.fillText(node.label, spot.x, spot.y + 4.5);
    },
    defaultDrawNodeHover: (context, node, settings) => {
      const label = node.label ?? "";
      context.font = `${settings.labelWeight} ${settings.labelSize}px ${settings.labelFont}`;
      const width = context.measureText(label).width;
      context.fillStyle = surface;
      context.strokeStyle = line;
      context.beginPath();
      context.roundRect(node.x - node.size - 4, node.y - 13, width + 2 * node.size + 18, 26, 13);
      context.fill();
      context.stroke();
      context.fillStyle = node.color;
      context.beginPath();
      context.arc(node.x, node.y, node.size, 0, 2 * Math.PI);
      context.fill();
      context.fillStyle = ink;
      context.fillText(label, node.x + node.size + 5, node.y + 4.5);
    },
    nodeReducer: (node, attributes) => {
      if (!near(node)) return { ...attributes, color: line, label: "" };
      return pointed === null && attributes["far"] ? { ...attributes, label: "" } : attributes;
    },
    edgeReducer: (edge, attributes) => {
      if (pointed === null) return { ...attributes, label: "" };
      return graph.hasExtremity(edge, pointed) ? { ...attributes, color: accent, forceLabel: true } : { ...attributes, hidden: true };
    },
  });
  sigma.on("beforeRender", () => { written = []; });
  sigma.on("enterNode", ({ node }) => { pointed = node; room.style.cursor = "pointer"; sigma.refresh({ skipIndexation: true }); });
  sigma.on("leaveNode", () => { pointed = null; room.style.cursor = ""; sigma.refresh({ skipIndexation: true }); });
  sigma.on("clickNode", ({ node }) => open(node));
  return () => sigma.kill();
}
