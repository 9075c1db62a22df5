// The scopes of the nodes' names. Items have numbers: a node its row, a scope one after them.

import { ADDED, KEPT, LOWERED, NOT_FLOAT, RAISED, type Report, type View } from "./data";
import { groups, parts, passiveGraphs } from "./grouping";

/** More children than this, and a scope shows them in parts. */
const MOST_CHILDREN = 200;
const PART = 100;
/** A scope with this share of all that changes is where to look. */
const MAIN_SHARE = 0.7;
/** The scopes that TensorFlow gives to gradients. */
const GRADIENTS = /(^|\/)(gradient_tape|gradients(_\d+)?)\//;
const DECIDED = [LOWERED, RAISED, KEPT];

export type Counts = number[];

export interface Scope {
  item: number;
  parent: number;
  /** A part holds some of many children; a group holds children that compute nothing. */
  kind: "root" | "graph" | "scope" | "part" | "group";
  label: string;
  /** The graph's name, or the names of all scopes down to this one. */
  path: string;
  children: number[];
  /** The nodes in it are order[first] to order[last - 1]. */
  first: number;
  last: number;
  counts: Record<View, Counts>;
  /** The same of what computes and of the Casts: without sources, and what is not float. */
  computing: Record<View, Counts>;
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
    this.graphs = report.stored.graphs.map((name, graph) =>
      this.addScope(this.root, "graph", report.graphNames[graph] || "graph", name),
    );
    this.addNodes(this.graphs);
    this.fold(passiveGraphs(report));
    this.group(this.root);
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
    const name = this.report.short(item);
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

  /** How many nodes in it compute. */
  computing(scope: number, view: View): number {
    const counts = this.scope(scope).computing[view];
    return DECIDED.reduce((sum, decision) => sum + (counts[decision] ?? 0), 0);
  }

  private addScope(parent: number, kind: Scope["kind"], label: string, path: string): number {
    const item = this.report.size + this.scopes.length;
    const none = () => new Array<number>(ADDED + 1).fill(0);
    const counts = { before: none(), after: none() };
    const computing = { before: none(), after: none() };
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
      computing,
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
      const name = this.report.short(beside[node] as number);
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

  /** Puts the graphs that compute nothing into one scope, if there are others. */
  private fold(passive: readonly number[]): void {
    const items = passive.map((graph) => this.graphs[graph] as number);
    if (items.length === 0) return;
    const label = items.length === 1 ? "1 only calls others" : `${items.length} only call others`;
    this.gather(this.root, "group", label, items);
  }

  /** Gathers, in every scope, what stands apart. */
  private group(item: number): boolean {
    let decides = false;
    const scope = this.scope(item);
    const children = [...scope.children].map((child) => {
      const isScope = this.isScope(child);
      const isIdle = isScope ? !this.group(child) : this.report.decision(child) === NOT_FLOAT;
      decides = decides || !isIdle;
      return { item: child, source: !isScope && this.report.isSource(child) ? child : -1, isIdle };
    });
    if (scope.kind === "graph" || scope.kind === "scope") {
      for (const { label, children: some } of groups(this.report, children)) {
        this.gather(item, "group", label, some);
      }
    }
    return decides;
  }

  /** Moves children of a scope into a new one, which becomes its last child. */
  private gather(
    parent: number,
    kind: Scope["kind"],
    label: string,
    children: readonly number[],
  ): void {
    const gathered = new Set(children);
    const around = this.scope(parent);
    around.children = around.children.filter((child) => !gathered.has(child));
    const made = this.addScope(parent, kind, label, around.path);
    this.scope(made).children = [...children];
    for (const child of children) {
      if (this.isScope(child)) this.scope(child).parent = made;
      else this.parents[child] = made;
    }
  }

  /** Puts what is too much for one scope into parts. */
  private split(item: number): void {
    while (this.scope(item).children.length > MOST_CHILDREN) {
      const children = [...this.scope(item).children];
      for (const part of parts(children, (child) => this.label(child), PART)) {
        if (part.children.length > 1) this.gather(item, "part", part.label, part.children);
      }
    }
    for (const child of this.scope(item).children) if (this.isScope(child)) this.split(child);
  }

  /** How many nodes in it are lowered or raised, without gradients, which repeat the model. */
  private changed(item: number): number {
    const isChanged = (node: number): boolean =>
      [LOWERED, RAISED].includes(this.report.decision(node)) &&
      !GRADIENTS.test(this.report.name(node));
    return this.nodesIn(item).filter(isChanged).length;
  }

  /** Where to look first: the graph where most changes, or the scope in it that has nearly all. */
  mainScope(view: View): number {
    const changes = this.changed(this.root) > 0;
    const sum = (item: number): number =>
      changes ? this.changed(item) : this.computing(item, view);
    const most = (items: readonly number[]): number | undefined =>
      [...items].sort((one, other) => sum(other) - sum(one))[0];
    let at = this.root;
    let next = most(this.graphs.filter((graph) => this.isIn(graph, view)));
    while (next !== undefined) {
      at = next;
      const scopes = this.children(at, view).filter(
        (child) => this.isScope(child) && this.scope(child).kind === "scope",
      );
      next = most(scopes.filter((scope) => sum(scope) >= MAIN_SHARE * sum(at)));
      // A layer is to be seen from outside.
      const isLayer = (scope: number): boolean =>
        !this.children(scope, view).some(
          (child) => this.isScope(child) && this.scope(child).kind === "scope",
        );
      if (next !== undefined && isLayer(next)) break;
    }
    return at;
  }

  private number(item: number): void {
    const scope = this.scope(item);
    scope.first = this.order.length;
    for (const child of scope.children) {
      if (this.isScope(child)) {
        this.number(child);
        for (const view of ["before", "after"] as const) {
          for (const of of ["counts", "computing"] as const) {
            this.scope(child)[of][view].forEach((count, decision) => {
              scope[of][view][decision] = (scope[of][view][decision] ?? 0) + count;
            });
          }
        }
      } else {
        this.order.push(child);
        const decision = this.report.decision(child);
        for (const view of ["before", "after"] as const) {
          if (!this.report.isIn(child, view)) continue;
          scope.counts[view][decision] = (scope.counts[view][decision] ?? 0) + 1;
          if (decision === NOT_FLOAT || this.report.isSource(child)) continue;
          scope.computing[view][decision] = (scope.computing[view][decision] ?? 0) + 1;
        }
      }
    }
    scope.last = this.order.length;
  }
}
