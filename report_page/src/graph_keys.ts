// Moving about in the graph by keys.

import type { View } from "./data";
import { edgesBetween } from "./edges";
import type { Expansion } from "./expansion";
import type { GraphView } from "./graph_view";
import type { Point } from "./layout";
import type { Tree } from "./tree";

type Direction = "up" | "down" | "left" | "right";

/** Where an arrow leads from an item: along a line, or to the neighbour in the same scope. */
export function neighbour(
  tree: Tree,
  expansion: Expansion,
  graph: GraphView,
  from: number,
  direction: Direction,
  view: View,
  control: boolean,
): number {
  const here = graph.place(from);
  const drawn = expansion.drawn(view);
  if (here === null) return drawn[0] ?? -1;
  if (direction === "up" || direction === "down") {
    const isOpen = (item: number): boolean => expansion.isOpen(item);
    const edges = edgesBetween(tree, view, control, drawn, isOpen);
    const joined =
      direction === "up"
        ? edges.filter(({ to }) => to === from).map(({ from: source }) => source)
        : edges.filter(({ from: source }) => source === from).map(({ to }) => to);
    return nearest(graph, here, joined) ?? from;
  }
  const siblings = tree.children(tree.parent(from), view).filter((item) => item !== from);
  const sign = direction === "left" ? -1 : 1;
  const isThere = (item: number): boolean => {
    const place = graph.place(item);
    return place !== null && sign * (place.x - here.x) > 1;
  };
  return nearest(graph, here, siblings.filter(isThere), 3) ?? from;
}

/** The nearest, where what is further up or down counts as further away. */
function nearest(
  graph: GraphView,
  here: Point,
  items: readonly number[],
  steepness = 1,
): number | undefined {
  let best: number | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const item of items) {
    const place = graph.place(item);
    if (place === null) continue;
    const distance = Math.hypot(place.x - here.x, steepness * (place.y - here.y));
    if (distance < least) {
      least = distance;
      best = item;
    }
  }
  return best;
}
