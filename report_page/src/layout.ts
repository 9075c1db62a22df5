// Where items are drawn: each open scope is laid out by itself, as one box of the scope around it.

import { Graph, layout as arrange } from "@dagrejs/dagre";
import type { Edge } from "./edges";

export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

/** What is inside of one scope, around its own middle. */
interface Inside extends Size {
  /** The middle of each child. */
  places: Map<number, Point>;
  /** Between two children, where the line bends. */
  bends: Map<string, Point[]>;
}

export interface Layout {
  /** The middle of each item. */
  places: Map<number, Point>;
  /** The size of each open scope. */
  open: Map<number, Size>;
  /** Between two children of one scope, where the line bends. */
  bends: Map<string, Point[]>;
}

export interface ToLayOut {
  root: number;
  children(item: number): number[];
  isOpen(item: number): boolean;
  size(item: number): Size;
  edges(scope: number): readonly Edge[];
}

/** Around what is in an open scope; above it is its name. */
const PADDING = 14;
export const HEADING = 22;
const GAP = 24;
const WIDEST_ROW = 900;

export const bendKey = (from: number, to: number): string => `${from} ${to}`;

/** Lays out; remembers each scope for as long as what is in it has the same sizes. */
export class Layouter {
  private readonly known = new Map<number, { key: string; inside: Inside }>();

  /** Forgets all: nodes or lines are other ones now. */
  forget(): void {
    this.known.clear();
  }

  layOut(graph: ToLayOut): Layout {
    const layout: Layout = { places: new Map(), open: new Map(), bends: new Map() };
    const inside = new Map<number, Inside>();
    this.measure(graph, graph.root, inside, layout.open);
    place(graph.root, { x: 0, y: 0 }, inside, layout);
    return layout;
  }

  private measure(
    graph: ToLayOut,
    scope: number,
    found: Map<number, Inside>,
    open: Map<number, Size>,
  ): Size {
    const children = graph.children(scope);
    const sizes = new Map<number, Size>();
    for (const child of children) {
      const size = graph.isOpen(child)
        ? this.measure(graph, child, found, open)
        : graph.size(child);
      sizes.set(child, size);
    }
    const key = [...sizes].map(([child, size]) => `${child}:${size.width}x${size.height}`).join();
    let known = this.known.get(scope);
    if (known === undefined || known.key !== key) {
      known = { key, inside: layOutScope(children, sizes, graph.edges(scope)) };
      this.known.set(scope, known);
    }
    found.set(scope, known.inside);
    const size = {
      width: known.inside.width + 2 * PADDING,
      height: known.inside.height + 2 * PADDING + HEADING,
    };
    open.set(scope, size);
    return size;
  }
}

function place(
  scope: number,
  middle: Point,
  insides: ReadonlyMap<number, Inside>,
  layout: Layout,
): void {
  const inside = insides.get(scope);
  if (inside === undefined) return;
  const moved = (point: Point): Point => ({ x: point.x + middle.x, y: point.y + middle.y });
  for (const [child, point] of inside.places) {
    layout.places.set(child, moved(point));
    // The heading is above what is in it.
    const { x, y } = moved(point);
    place(child, { x, y: y + HEADING / 2 }, insides, layout);
  }
  for (const [key, points] of inside.bends) layout.bends.set(key, points.map(moved));
}

function layOutScope(
  children: readonly number[],
  sizes: ReadonlyMap<number, Size>,
  edges: readonly Edge[],
): Inside {
  const inside = edges.filter((edge) => sizes.has(edge.from) && sizes.has(edge.to));
  const joined = new Set(inside.flatMap((edge) => [edge.from, edge.to]));
  const flow = layOutJoined(
    children.filter((child) => joined.has(child)),
    sizes,
    inside,
  );
  const alone = children.filter((child) => !joined.has(child));
  const rows = layOutAlone(alone, sizes, Math.max(flow.width, WIDEST_ROW));
  const width = Math.max(flow.width, rows.width);
  const gap = flow.places.size > 0 && rows.places.size > 0 ? GAP : 0;
  const height = flow.height + gap + rows.height;
  const places = new Map<number, Point>();
  for (const [child, { x, y }] of flow.places) {
    places.set(child, { x: x - flow.width / 2, y: y - height / 2 });
  }
  for (const [child, { x, y }] of rows.places) {
    places.set(child, { x: x - rows.width / 2, y: y + flow.height + gap - height / 2 });
  }
  const bends = new Map<string, Point[]>();
  for (const [key, points] of flow.bends) {
    const moved = points.map(({ x, y }) => ({ x: x - flow.width / 2, y: y - height / 2 }));
    bends.set(key, moved);
  }
  return { width, height, places, bends };
}

/** What is read above what reads it. The corner is at 0, 0. */
function layOutJoined(
  children: readonly number[],
  sizes: ReadonlyMap<number, Size>,
  edges: readonly Edge[],
): Inside {
  const places = new Map<number, Point>();
  const bends = new Map<string, Point[]>();
  if (children.length === 0) return { width: 0, height: 0, places, bends };
  const graph = new Graph();
  // The quick way to rank, where there is much.
  const ranker = children.length > 60 ? "longest-path" : "network-simplex";
  graph.setGraph({ rankdir: "TB", nodesep: GAP, edgesep: 12, ranksep: 34, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const child of children) graph.setNode(String(child), { ...(sizes.get(child) as Size) });
  for (const edge of edges) {
    graph.setEdge(String(edge.from), String(edge.to), { weight: edge.control ? 1 : 2 });
  }
  arrange(graph);
  for (const child of children) {
    const { x, y } = graph.node(String(child)) as unknown as Point;
    places.set(child, { x, y });
  }
  for (const edge of edges) {
    const { points } = graph.edge(String(edge.from), String(edge.to)) as { points?: Point[] };
    // The first and the last are at the borders, where the line begins and ends anyway.
    bends.set(bendKey(edge.from, edge.to), (points ?? []).slice(1, -1));
  }
  const { width = 0, height = 0 } = graph.graph() as Partial<Size>;
  return { width, height, places, bends };
}

/** What nothing joins, in rows. The corner is at 0, 0. */
function layOutAlone(
  children: readonly number[],
  sizes: ReadonlyMap<number, Size>,
  widest: number,
): Inside {
  const places = new Map<number, Point>();
  let width = 0;
  let top = 0;
  let left = 0;
  let tallest = 0;
  for (const child of children) {
    const size = sizes.get(child) as Size;
    if (left > 0 && left + size.width > widest) {
      top += tallest + GAP;
      left = 0;
      tallest = 0;
    }
    places.set(child, { x: left + size.width / 2, y: top + size.height / 2 });
    left += size.width + GAP;
    width = Math.max(width, left - GAP);
    tallest = Math.max(tallest, size.height);
  }
  return { width, height: children.length > 0 ? top + tallest : 0, places, bends: new Map() };
}
