// The scopes of the nodes' names. Items have numbers: a node its row, a scope one after them.

import { ADDED, type Report, type View } from "./data";

/** More children than this, and a scope shows them in parts. */
const MOST_CHILDREN = 200;
const PART = 100;

export type Counts = number[];

export interface Scope {
  item: number;
  parent: number;
  kind: "root" | "graph" | "scope" | "part";
  label: string;
  /** The graph's name, or the names of all scopes down to this one. */
  path: string;
  children: number[];
  /** The nodes in it are order[first] to order[last - 1]. */
  first: number;
  last: number;
  counts: Record<View, Counts>;
}

export class Tree {
  readonly root: number;
  /** The nodes, as the tree has them from top to bottom. */
  readonly order: number[] = [];
  /** The scopes of graphs, by the graphs' numbers. */
  readonly graphs: readonly number[];
  private readonly parents: number[];
  private readonly scopes: Scope[] = [];

  constructor(readonly report: Report) {
    this.parents = new Array<number>(report.size).fill(-1);
    this.root = this.addScope(-1, "root", "", "");
    this.graphs = report.stored.graphs.map((name) =>
      this.addScope(this.root, "graph", name === "" ? "graph" : name, name),
    );
    this.addNodes(this.graphs);
    this.split(this.root);
    this.number(this.root);
  }

  isScope(item: number): boolean {
    return item >= this.report.size;
  }

  scope(item: number): Scope {
    const scope = this.scopes[item - this.report.size];
    if (scope === undefined) throw new Error(`item ${item} is no scope`);
    return scope;
  }

  parent(item: number): number {
    return this.isScope(item) ? this.scope(item).parent : (this.parents[item] ?? -1);
  }

  /** From the topmost scope, which is not the root, down to the item itself. */
  pathTo(item: number): number[] {
    const path: number[] = [];
    for (let at = item; at !== this.root && at >= 0; at = this.parent(at)) path.unshift(at);
    return path;
  }

  label(item: number): string {
    if (this.isScope(item)) return this.scope(item).label;
    const cast = this.report.castAt.get(item);
    if (cast !== undefined) return `Cast to ${cast.to}`;
    const name = this.report.name(item);
    return name.slice(name.lastIndexOf("/") + 1);
  }

  /** The name of a node, or the path of a scope. */
  fullName(item: number): string {
    return this.isScope(item) ? this.scope(item).path : this.report.name(item);
  }

  nodesIn(item: number): readonly number[] {
    if (!this.isScope(item)) return [item];
    const scope = this.scope(item);
    return this.order.slice(scope.first, scope.last);
  }

  isIn(item: number, view: View): boolean {
    return this.isScope(item) ? this.total(item, view) > 0 : this.report.isIn(item, view);
  }

  children(item: number, view: View): number[] {
    return this.isScope(item)
      ? this.scope(item).children.filter((child) => this.isIn(child, view))
      : [];
  }

  /** How many nodes are in it. */
  total(item: number, view: View): number {
    return this.scope(item).counts[view].reduce((sum, count) => sum + count, 0);
  }

  private addScope(parent: number, kind: Scope["kind"], label: string, path: string): number {
    const item = this.report.size + this.scopes.length;
    const none = () => new Array<number>(ADDED + 1).fill(0);
    const counts = { before: none(), after: none() };
    this.scopes.push({
      item,
      parent,
      kind,
      label,
      path,
      children: [],
      first: 0,
      last: 0,
      counts,
    });
    if (parent >= 0) this.scope(parent).children.push(item);
    return item;
  }

  private addNodes(graphs: readonly number[]): void {
    const found = new Map<string, number>();
    const scopeOf = (graph: number, path: string): number => {
      if (path === "") return graphs[graph] ?? this.root;
      const key = `${graph}/${path}`;
      const known = found.get(key);
      if (known !== undefined) return known;
      const slash = path.lastIndexOf("/");
      const parent = scopeOf(graph, slash < 0 ? "" : path.slice(0, slash));
      const made = this.addScope(parent, "scope", path.slice(slash + 1), path);
      found.set(key, made);
      return made;
    };
    // A Cast stands next to what it casts, whose name its own begins with.
    const beside = Array.from({ length: this.report.size }, (_, node) => {
      const of = this.report.castAt.get(node)?.of ?? -1;
      return of >= 0 ? of : node;
    });
    const nodes = [...beside.keys()].sort(
      (one, other) => (beside[one] as number) - (beside[other] as number) || one - other,
    );
    const placeOf = (node: number): [graph: number, name: string, around: string] => {
      const name = this.report.name(beside[node] as number);
      return [this.report.graph(node), name, name.slice(0, Math.max(name.lastIndexOf("/"), 0))];
    };
    for (const node of nodes) {
      const [graph, , around] = placeOf(node);
      scopeOf(graph, around);
    }
    for (const node of nodes) {
      const [graph, name, around] = placeOf(node);
      // Of a node that has the name of a scope, the place is in it.
      const parent = found.get(`${graph}/${name}`) ?? scopeOf(graph, around);
      this.parents[node] = parent;
      this.scope(parent).children.push(node);
    }
  }

  private split(item: number): void {
    for (const child of [...this.scope(item).children]) {
      if (this.isScope(child)) this.split(child);
    }
    const scope = this.scope(item);
    const all = scope.children.length;
    for (let span = 1; scope.children.length > MOST_CHILDREN; span *= PART) {
      const children = scope.children;
      scope.children = [];
      for (let first = 0; first < children.length; first += PART) {
        const inside = children.slice(first, first + PART);
        const from = first * span + 1;
        const to = Math.min((first + inside.length) * span, all);
        const label = `${from.toLocaleString("en")} – ${to.toLocaleString("en")}`;
        const part = this.addScope(item, "part", label, scope.path);
        this.scope(part).children = inside;
        for (const child of inside) {
          if (this.isScope(child)) this.scope(child).parent = part;
          else this.parents[child] = part;
        }
      }
    }
  }

  private number(item: number): void {
    const scope = this.scope(item);
    scope.first = this.order.length;
    for (const child of scope.children) {
      if (this.isScope(child)) {
        this.number(child);
        for (const view of ["before", "after"] as const) {
          this.scope(child).counts[view].forEach((count, decision) => {
            scope.counts[view][decision] = (scope.counts[view][decision] ?? 0) + count;
          });
        }
      } else {
        this.order.push(child);
        const decision = this.report.decision(child);
        for (const view of ["before", "after"] as const) {
          if (!this.report.isIn(child, view)) continue;
          scope.counts[view][decision] = (scope.counts[view][decision] ?? 0) + 1;
        }
      }
    }
    scope.last = this.order.length;
  }
}
