// The way of a line round the boxes: up and down beside a box, across only between rows of boxes.

import type { Edge } from "./edges";
import { bendKey, type Layout, PADDING, type Point } from "./layout";
import type { Tree } from "./tree";

/** How far from the border of a scope, or below what it leaves, a line runs. */
const BESIDE = PADDING / 2;
/** What the border of an item adds to its height at one end. */
const BORDER = 1;
/** The room for the head of an arrow, and how far above what it enters a line runs. */
const HEAD = 8;
const ABOVE = HEAD + 5;

/** From the border of one item to the border of the other, both ends among the points. */
export function way(edge: Edge, tree: Tree, layout: Layout): Point[] {
  const from = tree.pathTo(edge.from);
  const to = tree.pathTo(edge.to);
  let depth = 0;
  while (from[depth] === to[depth]) depth++;
  const first = from[depth] as number;
  const second = to[depth] as number;
  const around = depth === 0 ? tree.root : (from[depth - 1] as number);
  // Only the lines that close a loop go up.
  const down = rowOf(layout, first).top <= rowOf(layout, second).top;
  const left = waysOut(from.slice(depth), layout, down, 1, BESIDE);
  const entered = waysOut(to.slice(depth), layout, !down, -1, ABOVE);
  const start = { x: left.x, y: edgeOf(layout, first, down) };
  const end = { x: entered.x, y: edgeOf(layout, second, !down) };
  const between = layout.bends.get(bendKey(first, second));
  const points = [
    ...left.points,
    start,
    ...(between ?? byTheMargin(start, end, around, layout, down)),
    { x: end.x, y: end.y - (down ? HEAD : -HEAD) },
    end,
    ...entered.points.reverse(),
  ];
  return withoutNeedless([borderOf(edge.from), ...points, borderOf(edge.to, true)]);

  function borderOf(item: number, isEnd = false): Point {
    const { x, y } = layout.places.get(item) ?? { x: 0, y: 0 };
    const half = (layout.sizes.get(item)?.height ?? 0) / 2 + BORDER;
    return { x, y: down === isEnd ? y - half : y + half };
  }
}

/**
 * From an item out of all open scopes that it is in, but the outermost of the path.
 *
 * What is in the last row leaves straight on; all else beside the rows that are in the way: at the
 * right (`side` 1), or, for lines that come in, at the left (-1).
 */
function waysOut(
  path: readonly number[],
  layout: Layout,
  down: boolean,
  side: 1 | -1,
  away: number,
): { points: Point[]; x: number } {
  const points: Point[] = [];
  let { x } = placeOf(layout, path[path.length - 1] as number);
  for (let at = path.length - 1; at > 0; at--) {
    const child = path[at] as number;
    const scope = path[at - 1] as number;
    const row = rowOf(layout, child);
    points.push({ x, y: edgeOf(layout, child, down) });
    if (down ? row.isLast : row.isFirst) continue;
    const y = edgeOf(layout, child, down) + (down ? away : -away);
    points.push({ x, y });
    x = margin(layout, scope, side);
    points.push({ x, y });
  }
  return { points, x };
}

/** For lines that the layout does not know: those of what is in a group. */
function byTheMargin(
  start: Point,
  end: Point,
  around: number,
  layout: Layout,
  down: boolean,
): Point[] {
  const x = margin(layout, around, -1);
  const below = start.y + (down ? BESIDE : -BESIDE);
  const above = end.y - (down ? ABOVE : -ABOVE);
  return [
    { x: start.x, y: below },
    { x, y: below },
    { x, y: above },
    { x: end.x, y: above },
  ];
}

function margin(layout: Layout, scope: number, side: 1 | -1): number {
  const width = layout.sizes.get(scope)?.width ?? 0;
  return placeOf(layout, scope).x + side * (width / 2 - BESIDE);
}

/** The lower or the upper end of an item's row. */
function edgeOf(layout: Layout, item: number, lower: boolean): number {
  const row = rowOf(layout, item);
  return lower ? row.bottom : row.top;
}

const rowOf = (layout: Layout, item: number) =>
  layout.rows.get(item) ?? { top: 0, bottom: 0, isFirst: true, isLast: true };

/** The root is in the middle of all. */
const placeOf = (layout: Layout, item: number): Point => layout.places.get(item) ?? { x: 0, y: 0 };

/** Without points that are on the straight line between their neighbours. */
function withoutNeedless(points: readonly Point[]): Point[] {
  const kept: Point[] = [];
  for (const point of points) {
    const last = kept[kept.length - 1];
    if (last !== undefined && Math.hypot(point.x - last.x, point.y - last.y) < 0.5) continue;
    const before = kept[kept.length - 2];
    if (last !== undefined && before !== undefined && isBetween(last, before, point)) kept.pop();
    kept.push(point);
  }
  return kept;
}

function isBetween(point: Point, one: Point, other: Point): boolean {
  const along = { x: other.x - one.x, y: other.y - one.y };
  const away = { x: point.x - one.x, y: point.y - one.y };
  const length = Math.hypot(along.x, along.y);
  const isForward = along.x * away.x + along.y * away.y >= 0;
  return isForward && Math.abs(along.x * away.y - along.y * away.x) < 0.5 * length;
}
