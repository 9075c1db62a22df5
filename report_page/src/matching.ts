// What a search finds: a part of a name or op type, or a regular expression between slashes.

import type { Report, View } from "./data";

export interface Found {
  nodes: number[];
  /** Why the regular expression is none; "" if nothing is wrong. */
  error: string;
}

function matcher(wanted: string): (text: string) => boolean {
  const expression = /^\/(.+)\/([imsu]*)$/.exec(wanted);
  if (expression !== null) {
    const compiled = new RegExp(expression[1] ?? "", expression[2]);
    return (text) => compiled.test(text);
  }
  const part = wanted.toLowerCase();
  return (text) => text.toLowerCase().includes(part);
}

/** Nodes of both views: whoever goes to one sees the view that it is in. */
export function search(report: Report, wanted: string, view: View): Found {
  if (wanted === "") return { nodes: [], error: "" };
  let matches: (text: string) => boolean;
  try {
    matches = matcher(wanted);
  } catch (error) {
    return { nodes: [], error: error instanceof Error ? error.message : String(error) };
  }
  // What is called just so comes first.
  const exact = wanted.toLowerCase();
  const nodes: number[] = [];
  const others: number[] = [];
  for (let node = 0; node < report.size; node++) {
    const name = report.name(node);
    const op = report.op(node, view);
    const short = report.short(node);
    if (!matches(name) && !matches(op) && !(short !== name && matches(short))) continue;
    const last = name.slice(name.lastIndexOf("/") + 1);
    const isExact = [name, short, last, op].some((text) => text.toLowerCase() === exact);
    (isExact ? nodes : others).push(node);
  }
  return { nodes: nodes.concat(others), error: "" };
}
