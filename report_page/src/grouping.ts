// What stands apart in a scope, so that the nodes that compute are seen first.

import { type Report, NOT_FLOAT } from "./data";
import { count } from "./dom";

/** Fewer than these stay where they are. */
const FEWEST = 4;

export interface Group {
  label: string;
  children: number[];
}

/** What a group is made of: a node or scope, and whether it has something to decide. */
export interface Child {
  item: number;
  /** The node, if it is a source; else -1. */
  source: number;
  isIdle: boolean;
}

/** The groups of a scope: its sources, and what has nothing to decide. */
export function groups(report: Report, children: readonly Child[]): Group[] {
  const sources = children.filter(({ source }) => source >= 0);
  const idle = children.filter(({ isIdle }) => isIdle);
  // Where there is nothing else, nothing would be seen.
  if (sources.length + idle.length === children.length) return [];
  const items = (some: readonly Child[]): number[] => some.map(({ item }) => item);
  const found: Group[] = [];
  if (sources.length >= FEWEST) {
    const noun = nounOf(new Set(sources.map(({ source }) => report.op(source, "before"))));
    found.push({ label: count(sources.length, noun), children: items(sources) });
  }
  if (idle.length >= FEWEST) {
    const label = `${idle.length.toLocaleString("en")} with nothing to decide`;
    found.push({ label, children: items(idle) });
  }
  return found;
}

function nounOf(ops: ReadonlySet<string>): string {
  const are = (...wanted: string[]): boolean => [...ops].every((op) => wanted.includes(op));
  if (are("Const")) return "constant";
  if (are("_Arg", "Placeholder", "PlaceholderWithDefault")) return "argument";
  if (are("ReadVariableOp", "VariableV2", "Variable", "VarHandleOp")) return "variable";
  return "source";
}

/** The graphs that compute nothing themselves: they only call others, save and restore. */
export function passiveGraphs(report: Report): number[] {
  const isPassive = (node: number): boolean =>
    report.decision(node) === NOT_FLOAT ||
    report.isSource(node) ||
    report.reason(node) === "never_changed" ||
    report.op(node, "before").startsWith("Identity");
  const computes = new Set<number>();
  for (let node = 0; node < report.size; node++) {
    if (!isPassive(node)) computes.add(report.graph(node));
  }
  const graphs = [...report.stored.graphs.keys()];
  return computes.size === 0 ? [] : graphs.filter((graph) => !computes.has(graph));
}

/** Children in parts of at most `most`: by names that differ in a number only, else by order. */
export function parts(
  children: readonly number[],
  label: (item: number) => string,
  most: number,
): Group[] {
  const byStem = new Map<string, number[]>();
  for (const child of children) {
    const stem = label(child).replace(/[_-]?\d+$/, "");
    const alike = byStem.get(stem);
    if (alike === undefined) byStem.set(stem, [child]);
    else alike.push(child);
  }
  const isUseful = byStem.size > 1 && byStem.size <= most;
  if (isUseful) {
    return [...byStem].map(([stem, alike]) => ({
      label: `${stem} (${alike.length.toLocaleString("en")})`,
      children: alike,
    }));
  }
  const found: Group[] = [];
  for (let first = 0; first < children.length; first += most) {
    const inside = children.slice(first, first + most);
    const ends = [inside[0], inside[inside.length - 1]] as [number, number];
    found.push({ label: ends.map(label).join(" – "), children: inside });
  }
  return found;
}
