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

/** Items side by side. Above and below it is room for lines. */
export interface Row {
  top: number;
  bottom: number;
  /** Whether nothing of the scope is above it, and nothing below it. */
  isFirst: boolean;
  isLast: boolean;
}

/** What is inside of one scope, around its own middle. */
interface Inside extends Size {
  /** The middle of each child. */
  places: Map<number, Point>;
  /** Of each child, the row that it is in. */
  rows: Map<number, Row>;
  /** Between two children, where the line bends. */
  bends: Map<string, Point[]>;
}

export interface Layout {
  /** The middle of each item. */
  places: Map<number, Point>;
  /** The size of each item, that of open scopes too. */
  sizes: Map<number, Size>;
  /** Of each item, the row of its scope that it is in. */
  rows: Map<number, Row>;
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
export const PADDING = 14;
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
    const layout: Layout = {
      places: new Map(),
      sizes: new Map(),
      rows: new Map(),
      bends: new Map(),
    };
    const inside = new Map<number, Inside>();
    this.measure(graph, graph.root, inside, layout.sizes);
    place(graph.root, { x: 0, y: 0 }, inside, layout);
    return layout;
  }

  private measure(
    graph: ToLayOut,
    scope: number,
    found: Map<number, Inside>,
    sizes: Map<number, Size>,
  ): Size {
    const children = graph.children(scope);
    for (const child of children) {
      const size = graph.isOpen(child)
        ? this.measure(graph, child, found, sizes)
        : graph.size(child);
      sizes.set(child, size);
    }
    const key = children.map((child) => `${child}:${Object.values(sizes.get(child) ?? {})}`).join();
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
    sizes.set(scope, size);
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
  for (const [child, row] of inside.rows) layout.rows.set(child, movedRow(row, middle.y));
  for (const [key, points] of inside.bends) {
    layout.bends.set(
      key,
      points.map((point) => moved(point, middle)),
    );
  }
  for (const [child, point] of inside.places) {
    const at = moved(point, middle);
    layout.places.set(child, at);
    // The heading is above what is in it.
    place(child, { x: at.x, y: at.y + HEADING / 2 }, insides, layout);
  }
}

const moved = ({ x, y }: Point, by: Point): Point => ({ x: x + by.x, y: y + by.y });
const movedRow = (row: Row, by: number): Row => ({
  ...row,
  top: row.top + by,
  bottom: row.bottom + by,
});

function layOutScope(
  children: readonly number[],
  sizes: ReadonlyMap<number, Size>,
  edges: readonly Edge[],
): Inside {
  const here = new Set(children);
  const inside = edges.filter((edge) => here.has(edge.from) && here.has(edge.to));
  const joined = new Set(inside.flatMap((edge) => [edge.from, edge.to]));
  const flow = layOutJoined(
    children.filter((child) => joined.has(child)),
    sizes,
    inside,
  );
  const others = children.filter((child) => !joined.has(child));
  const alone = layOutAlone(others, sizes, Math.max(flow.width, WIDEST_ROW));
  const width = Math.max(flow.width, alone.width);
  const gap = flow.places.size > 0 && alone.places.size > 0 ? GAP : 0;
  const height = flow.height + gap + alone.height;
  const found: Inside = { width, height, places: new Map(), rows: new Map(), bends: new Map() };
  for (const [part, top] of [
    [flow, 0],
    [alone, flow.height + gap],
  ] as const) {
    // The corner of a part is at 0, 0.
    const by = { x: -part.width / 2, y: top - height / 2 };
    for (const [child, at] of part.places) found.places.set(child, moved(at, by));
    for (const [child, row] of part.rows) {
      const { top: above, bottom } = movedRow(row, by.y);
      const isFirst = above < 0.5 - height / 2;
      found.rows.set(child, { top: above, bottom, isFirst, isLast: bottom > height / 2 - 0.5 });
    }
    for (const [key, points] of part.bends) {
      found.bends.set(
        key,
        points.map((point) => moved(point, by)),
      );
    }
  }
  return found;
}

/** What is read above what reads it. The corner is at 0, 0. */
function layOutJoined(
  children: readonly number[],
  sizes: ReadonlyMap<number, Size>,
  edges: readonly Edge[],
): Inside {
  const found = emptyPart();
  if (children.length === 0) return found;
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
    found.places.set(child, { x, y });
  }
  found.rows = rowsOf(found.places, sizes);
  const rows = [...new Set(found.rows.values())];
  for (const edge of edges) {
    const { points } = graph.edge(String(edge.from), String(edge.to)) as { points?: Point[] };
    // The first and the last are at the borders, where the line begins and ends anyway.
    const bends = besideRows((points ?? []).slice(1, -1), rows);
    found.bends.set(bendKey(edge.from, edge.to), bends);
  }
  found.height = (graph.graph() as Partial<Size>).height ?? 0;
  // Lines may be further out than all boxes.
  const across = [...found.bends.values()].flat().map(({ x }) => x);
  for (const [child, { x }] of found.places) {
    const half = (sizes.get(child) as Size).width / 2;
    across.push(x - half, x + half);
  }
  const [left, right] = ends(across);
  found.width = right - left;
  for (const point of [...found.places.values(), ...[...found.bends.values()].flat()]) {
    point.x -= left;
  }
  return found;
}

const emptyPart = (): Inside => ({
  width: 0,
  height: 0,
  places: new Map(),
  rows: new Map(),
  bends: new Map(),
});

function ends(values: readonly number[]): [number, number] {
  return [
    values.reduce((one, other) => Math.min(one, other)),
    values.reduce((one, other) => Math.max(one, other)),
  ];
}

/** The rows of items whose middles are at the same height. */
function rowsOf(
  places: ReadonlyMap<number, Point>,
  sizes: ReadonlyMap<number, Size>,
): Map<number, Row> {
  const byHeight = new Map<number, Row>();
  const found = new Map<number, Row>();
  for (const [child, { y }] of places) {
    const half = (sizes.get(child) as Size).height / 2;
    const height = Math.round(y);
    const row = byHeight.get(height) ?? { top: y, bottom: y, isFirst: false, isLast: false };
    row.top = Math.min(row.top, y - half);
    row.bottom = Math.max(row.bottom, y + half);
    byHeight.set(height, row);
    found.set(child, row);
  }
  return found;
}

/** The bends within rows, drawn out over their heights; between rows a line needs none. */
function besideRows(bends: readonly Point[], rows: readonly Row[]): Point[] {
  return bends.flatMap((point, at) => {
    const row = rows.find(({ top, bottom }) => top <= point.y && point.y <= bottom);
    if (row === undefined) return [];
    const next = bends[at + 1] ?? point;
    const before = bends[at - 1] ?? point;
    const over = [
      { x: point.x, y: row.top },
      { x: point.x, y: row.bottom },
    ];
    return next.y < before.y ? over.reverse() : over;
  });
}

/** What nothing joins, in rows. The corner is at 0, 0. */
function layOutAlone(
  children: readonly number[],
  sizes: ReadonlyMap<number, Size>,
  widest: number,
): Inside {
  const found = emptyPart();
  let row: Row = { top: 0, bottom: 0, isFirst: false, isLast: false };
  let left = 0;
  for (const child of children) {
    const size = sizes.get(child) as Size;
    if (left > 0 && left + size.width > widest) {
      row = { ...row, top: row.bottom + GAP, bottom: row.bottom + GAP };
      left = 0;
    }
    found.places.set(child, { x: left + size.width / 2, y: row.top + size.height / 2 });
    found.rows.set(child, row);
    row.bottom = Math.max(row.bottom, row.top + size.height);
    found.height = row.bottom;
    left += size.width + GAP;
    found.width = Math.max(found.width, left - GAP);
  }
  return found;
}
