// The address of the page names the node that is looked at: #node=NAME, and &in=FUNCTION.

import type { Report } from "./data";

/** What the address names: a node, or a name that no node has. */
export interface Named {
  node: number;
  name: string;
}

export function addressOf(report: Report, node: number): string {
  const inside = report.functionOf(node);
  const where = inside === "" ? "" : `&in=${encodeURIComponent(inside)}`;
  return `#node=${encodeURIComponent(report.name(node))}${where}`;
}

/** Reads an address; null if it names no node. A short name will do, where only one node has it. */
export function namedIn(report: Report, address: string): Named | null {
  const parts = new Map<string, string>();
  for (const part of address.replace(/^#/, "").split("&")) {
    const [key = "", ...value] = part.split("=");
    parts.set(key, decoded(value.join("=")));
  }
  const name = parts.get("node") ?? "";
  if (name === "") return null;
  const inside = parts.get("in");
  const isThere = (node: number): boolean =>
    inside === undefined || report.functionOf(node) === inside;
  const nodes = [...report.stored.nodes.name.keys()].filter(isThere);
  const exact = nodes.find((node) => report.name(node) === name);
  const short = nodes.filter((node) => report.short(node) === name);
  return { node: exact ?? (short.length === 1 ? (short[0] as number) : -1), name };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // A name with a percent sign that somebody typed.
  }
}
