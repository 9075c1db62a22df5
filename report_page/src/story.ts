// Why a node is in the precision that it is in. The words are those of the command `explain`.

import { CONTROL, NONE, type Report } from "./data";

/** Text, and nodes that one can go to. */
export type Telling = (string | { node: number; text: string })[];

function linkTo(report: Report, node: number): { node: number; text: string } {
  return { node, text: report.short(node) };
}

export interface Advice {
  mixlist: string;
  effect: string;
}

/** The node, the one that decided about it, and so on to the one that decided in the end. */
export function chain(report: Report, node: number): number[] {
  const found = [node];
  for (let at = report.follows(node); at !== NONE && !found.includes(at); at = report.follows(at)) {
    found.push(at);
  }
  return found;
}

/** A reason in words, for several nodes. */
export function sentenceOf(report: Report, reason: string): string {
  return (report.stored.sentences[reason] ?? reason)
    .replace("{cause}", "another node")
    .replace(" ({by})", "");
}

/** The reason of one node, in words. */
export function why(report: Report, node: number): Telling {
  const sentence = report.stored.sentences[report.reason(node)] ?? "";
  const cause = report.cause(node);
  const told: Telling = [];
  for (const part of sentence.split(/(\{cause\}|\{by\})/)) {
    if (part === "{by}") told.push(report.listedBy(node));
    else if (part !== "{cause}") told.push(part);
    else if (cause !== NONE) told.push(linkTo(report, cause));
    else told.push(report.stored.some.cause_elsewhere[node] ?? "");
  }
  const listed = report.stored.some.why_listed[node];
  if (listed !== undefined) told.push(`: ${report.text(listed)}`);
  return told.filter((part) => part !== "");
}

/** A line for each step of the chain. */
export function steps(report: Report, node: number): Telling[] {
  return chain(report, node).map((at, number) => {
    if (number === 0) return why(report, at);
    const what = ` (${report.op(at, "before")}), ${report.decisionName(at)}: `;
    return ["because ", linkTo(report, at), what, ...why(report, at)];
  });
}

/** What a node reads, each tensor once, in the model as it was. */
export function fedBy(report: Report, node: number): Telling[] {
  const seen = new Set<string>();
  const told: Telling[] = [];
  const view = report.isIn(node, "before") ? "before" : "after";
  const noVote = new Map(report.stored.some.no_vote[node]);
  for (const { node: source, port } of report.inputs(node, view)) {
    const name = report.short(source);
    const text = port === CONTROL ? name : `${name}:${port}`;
    if (seen.has(`${text} ${port}`)) continue;
    seen.add(`${text} ${port}`);
    const why = noVote.get(source);
    let how = why === undefined ? "" : `, and does not vote because ${report.text(why)}`;
    if (port === CONTROL) how = ", a control input";
    const what = ` (${report.op(source, view)}), ${report.decisionName(source)}${how}`;
    told.push([{ node: source, text }, what]);
  }
  return told;
}

/** The mixlists that would change a node. */
export function advice(report: Report, node: number): Advice[] {
  return (report.stored.some.advice[node] ?? []).map(([key, about, effect]) => {
    const name = report.name(about);
    const escaped = report.stored.some.escaped[about] ?? name;
    const entry = JSON.stringify(`node:${escaped}`);
    return {
      mixlist: `{"${report.text(key)}": {"to-add": [${entry}]}}`,
      effect: report.text(effect).replace("{node}", () => report.short(about)),
    };
  });
}

/** The Casts that a node reads, and those that read it. */
export function castsAt(report: Report, node: number): number[] {
  const read = report.inputs(node, "after").map((input) => input.node);
  const reading = report.stored.casts.filter((cast) => cast.of === node).map((cast) => cast.node);
  return [...new Set([...read.filter((at) => report.castAt.has(at)), ...reading])];
}
