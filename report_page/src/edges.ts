// What reads what, as seen from the scopes that are open or closed.

import { CONTROL, type View } from "./data";
import type { Tree } from "./tree";

/** From one item to another, for all the tensors between what is in them. */
export interface Edge {
  from: number;
  to: number;
  tensors: number;
  /** Whether all that is between them is that one waits for the other. */
  control: boolean;
}

/** All pairs of a node and what it reads. */
function eachInput(
  tree: Tree,
  view: View,
  control: boolean,
  visit: (from: number, to: number, control: boolean) => void,
): void {
  const report = tree.report;
  for (let to = 0; to < report.size; to++) {
    if (!report.isIn(to, view)) continue;
    const flat = report.flatInputs(to, view);
    for (let at = 0; at + 1 < flat.length; at += 2) {
      const waits = flat[at + 1] === CONTROL;
      if (waits && !control) continue;
      visit(flat[at] as number, to, waits);
    }
  }
}

class Edges {
  private readonly found = new Map<number, Edge>();

  constructor(private readonly span: number) {}

  add(from: number, to: number, control: boolean): void {
    const key = from * this.span + to;
    const known = this.found.get(key);
    if (known === undefined) this.found.set(key, { from, to, tensors: 1, control });
    else {
      known.tensors++;
      known.control = known.control && control;
    }
  }

  all(): Edge[] {
    return [...this.found.values()];
  }
}

const SPAN = 1 << 24;

/** Groups have no lines: they would hide those between the nodes that compute. */
function isGroup(tree: Tree, item: number): boolean {
  return tree.isScope(item) && tree.scope(item).kind === "group";
}

/** Between the children of each scope, whatever is open: for the layout. */
export function edgesByScope(tree: Tree, view: View, control: boolean): Map<number, Edge[]> {
  const found = new Map<number, Edges>();
  const paths = new Map<number, number[]>();
  const pathTo = (node: number): number[] => {
    const parent = tree.parent(node);
    let path = paths.get(parent);
    if (path === undefined) {
      path = tree.pathTo(parent);
      paths.set(parent, path);
    }
    return path;
  };
  eachInput(tree, view, control, (from, to, waits) => {
    const above = pathTo(from);
    const below = pathTo(to);
    let depth = 0;
    while (depth < above.length && depth < below.length && above[depth] === below[depth]) depth++;
    const scope = depth === 0 ? tree.root : (above[depth - 1] as number);
    const first = above[depth] ?? from;
    const second = below[depth] ?? to;
    if (first === second || isGroup(tree, first) || isGroup(tree, second)) return;
    let edges = found.get(scope);
    if (edges === undefined) {
      edges = new Edges(SPAN);
      found.set(scope, edges);
    }
    edges.add(first, second, waits);
  });
  return new Map([...found].map(([scope, edges]) => [scope, edges.all()]));
}

/** Between what is drawn: each node, or the closed scope that it is in. */
export function edgesBetween(
  tree: Tree,
  view: View,
  control: boolean,
  drawn: readonly number[],
  isOpen: (item: number) => boolean,
): Edge[] {
  const shownAs = new Int32Array(tree.report.size).fill(-1);
  for (const item of drawn) {
    if (!tree.isScope(item)) shownAs[item] = item;
    else if (!isOpen(item) && !isGroup(tree, item))
      for (const node of tree.nodesIn(item)) shownAs[node] = item;
  }
  const edges = new Edges(SPAN);
  eachInput(tree, view, control, (from, to, waits) => {
    const first = shownAs[from] as number;
    const second = shownAs[to] as number;
    if (first >= 0 && second >= 0 && first !== second) edges.add(first, second, waits);
  });
  return edges.all();
}
