// The text on what is drawn, and the room that it takes.

import { count, shortened } from "./dom";
import { ADDED, CAST, NOT_FLOAT, type Report, type View } from "./data";
import { look, ORDER } from "./decisions";
import type { Size } from "./layout";
import type { Tree } from "./tree";

export const FONT_SIZE = 12;
export const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const LONGEST = 24;
const LINE = 16;

/** The dtypes that a node computes in. */
export function dtypesIn(report: Report, node: number, view: View): string {
  const at = view === "before" ? 1 : 2;
  const all = report.dtypes(node).map((dtype) => dtype[at]);
  const floats = all.filter((dtype) => dtype.includes("float"));
  const shown = report.isFloat(node) ? floats : all.slice(0, 1);
  return [...new Set(shown)].slice(0, 2).join(", ");
}

function nodeLines(tree: Tree, node: number, view: View): string[] {
  const report = tree.report;
  const decision = report.decision(node);
  const name = shortened(tree.label(node), LONGEST);
  if (decision === CAST) return [`${look(decision).letter} ${name}`];
  const op = shortened(report.op(node, view), LONGEST);
  const dtype = dtypesIn(report, node, view);
  return [`${look(decision).letter}  ${name}`, dtype === "" ? op : `${op}: ${dtype}`];
}

/** "L 4  K 3" of what computes, and of the Casts; of a scope without such nodes, how many it has. */
export function shares(tree: Tree, scope: number, view: View): string {
  const counts = tree.scope(scope).computing[view];
  if (counts.every((number) => number === 0)) return count(tree.total(scope, view), "node");
  return ORDER.filter((decision) => counts[decision])
    .map((decision) => `${look(decision).letter} ${counts[decision]?.toLocaleString("en")}`)
    .join("  ");
}

export function lines(tree: Tree, item: number, view: View): string[] {
  if (!tree.isScope(item)) return nodeLines(tree, item, view);
  return [`▸ ${shortened(tree.label(item), LONGEST)}`, shares(tree, item, view)];
}

const measuring = document.createElement("canvas").getContext("2d");

/** What the shape of a decision takes away from the room for text. */
const ROOM: Record<number, number> = { [NOT_FLOAT]: 18, [CAST]: 24, [ADDED]: 24 };

export function sizeOf(tree: Tree, item: number, view: View): Size {
  const text = lines(tree, item, view);
  if (measuring !== null) measuring.font = `${FONT_SIZE}px ${FONT}`;
  const widths = text.map((line) => measuring?.measureText(line).width ?? line.length * 7);
  const room = tree.isScope(item) ? 0 : (ROOM[tree.report.decision(item)] ?? 0);
  return {
    width: Math.ceil(Math.max(44, ...widths) + 20 + room),
    height: text.length * LINE + 10,
  };
}
