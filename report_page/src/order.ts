// The order of execution: each node comes after what it reads.

import type { Report, View } from "./data";
import type { Tree } from "./tree";

const VIEW: View = "after";

/** By node: its place in an order in which each node comes after what it reads. */
function inOrderOfReading(report: Report): number[] {
  const places = new Array<number>(report.size).fill(-1);
  const seen = new Uint8Array(report.size);
  let next = 0;
  for (let root = 0; root < report.size; root++) {
    const waiting = [root];
    while (waiting.length > 0) {
      const node = waiting[waiting.length - 1] as number;
      if (seen[node] === 0) {
        seen[node] = 1;
        // In a loop, what is read first is taken to come first.
        for (const { node: read } of report.inputs(node, VIEW).reverse()) {
          if (seen[read] === 0) waiting.push(read);
        }
        continue;
      }
      waiting.pop();
      if (places[node] === -1) places[node] = next++;
    }
  }
  return places;
}

export class Order {
  private places: number[] | null = null;
  private readonly known = new Map<number, number>();

  constructor(private readonly tree: Tree) {}

  /** The items, what runs first before the others. */
  sorted(items: readonly number[]): number[] {
    return [...items].sort((one, other) => this.place(one) - this.place(other));
  }

  /** Of a scope, the place of the middle of what computes: some nodes of it depend on nothing. */
  place(item: number): number {
    const known = this.known.get(item);
    if (known !== undefined) return known;
    this.places ??= inOrderOfReading(this.tree.report);
    const { report } = this.tree;
    const nodes = this.tree.nodesIn(item);
    const computing = nodes.filter((node) => report.isFloat(node) && !report.isSource(node));
    const found = (computing.length > 0 ? computing : nodes)
      .map((node) => this.places?.[node] ?? 0)
      .sort((one, other) => one - other);
    const place = found[found.length >> 1] ?? 0;
    this.known.set(item, place);
    return place;
  }
}
