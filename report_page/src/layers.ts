// The layers: the scopes inside the scope that computes most.

import { bar } from "./bar";
import { CAST, KEPT, LOWERED, RAISED, type Report, type View } from "./data";
import { count, make } from "./dom";
import { shown } from "./lines";
import type { Order } from "./order";
import { sentenceOf } from "./story";
import { Table } from "./table";
import type { Tree } from "./tree";

const VIEW: View = "after";

export interface Layer {
  scope: number;
  computing: number;
  lowered: number;
  raised: number;
  kept: number;
  casts: number;
  /** The commonest reason to keep what computes, and of how many nodes; "" for none. */
  reason: string;
  because: number;
  /** The largest error that enters at one of its nodes; null if none was measured. */
  entered: number | null;
}

/** The layers of the scope that the page opens with, in the order of execution. */
export function layersOf(tree: Tree, order: Order): Layer[] {
  const found = tree
    .children(tree.mainScope(VIEW), VIEW)
    .filter((item) => tree.isScope(item) && tree.scope(item).kind === "scope")
    .map((scope) => layer(tree, scope))
    .filter(({ computing }) => computing > 0);
  return found.sort((one, other) => order.place(one.scope) - order.place(other.scope));
}

const rounded = (error: number): number => Number(error.toPrecision(2));

function largest(nodes: readonly number[], report: Report): number | null {
  return nodes.length === 0 ? null : Math.max(...nodes.map((node) => report.entered(node)));
}

function layer(tree: Tree, scope: number): Layer {
  const report = tree.report;
  const computing = tree.scope(scope).computing[VIEW];
  const at = (decision: number): number => computing[decision] ?? 0;
  const reasons = new Map<string, number>();
  for (const node of tree.nodesIn(scope)) {
    if (report.decision(node) !== KEPT || report.isSource(node)) continue;
    reasons.set(report.reason(node), (reasons.get(report.reason(node)) ?? 0) + 1);
  }
  const [most] = [...reasons].sort(([, one], [, other]) => other - one);
  return {
    scope,
    computing: tree.computing(scope, VIEW),
    lowered: at(LOWERED),
    raised: at(RAISED),
    kept: at(KEPT),
    casts: at(CAST),
    reason: most?.[0] ?? "",
    because: most?.[1] ?? 0,
    entered: largest(
      tree.nodesIn(scope).filter((node) => report.isMeasured(node)),
      report,
    ),
  };
}

/** A button for each layer: its share lowered, and its Casts. */
export function strip(
  tree: Tree,
  layers: readonly Layer[],
  goTo: (item: number) => void,
): HTMLElement {
  const buttons = layers.map((each) => {
    const parts = [
      [LOWERED, each.lowered],
      [RAISED, each.raised],
      [KEPT, each.kept],
    ] as const;
    const changed = each.lowered > 0 || each.raised === 0 ? each.lowered : each.raised;
    const verb = changed === each.raised && changed > 0 ? "raised" : "lowered";
    const casts = each.casts > 0 ? `, ${count(each.casts, "Cast")}` : "";
    const error = each.entered === null ? "" : `, error ${shown(rounded(each.entered))}`;
    return make(
      "button",
      { type: "button", title: tree.fullName(each.scope), click: () => goTo(each.scope) },
      make("span", { class: "name" }, tree.label(each.scope)),
      bar(parts, each.computing),
      make("span", { class: "counts" }, `${changed} of ${each.computing} ${verb}${casts}${error}`),
    );
  });
  return make("div", { class: "strip", role: "group", "aria-label": "Layers" }, ...buttons);
}

/** The same as a table, with why most of what is kept is kept. */
export function layerTable(
  tree: Tree,
  layers: readonly Layer[],
  goTo: (item: number) => void,
): Table {
  const at = (row: number): Layer => layers[row] as Layer;
  const entered = {
    heading: "largest error",
    width: "8rem",
    value: (row: number) => at(row).entered,
    show: (row: number) => {
      const { entered } = at(row);
      return entered === null ? "" : shown(entered);
    },
  };
  return new Table({
    label: "Layers",
    rows: layers.map((_, row) => row),
    text: (row) => tree.fullName(at(row).scope),
    open: (row) => goTo(at(row).scope),
    columns: [
      {
        heading: "layer",
        width: "minmax(10rem, 3fr)",
        value: (row) => tree.fullName(at(row).scope),
      },
      { heading: "computing", width: "6.5rem", value: (row) => at(row).computing },
      { heading: "lowered", width: "5.5rem", value: (row) => at(row).lowered },
      { heading: "raised", width: "5.5rem", value: (row) => at(row).raised },
      { heading: "kept", width: "5rem", value: (row) => at(row).kept },
      { heading: "Casts", width: "5rem", value: (row) => at(row).casts },
      ...(tree.report.isCompared ? [entered] : []),
      {
        heading: "most are kept because",
        width: "minmax(14rem, 5fr)",
        value: (row) => because(tree.report, at(row)),
      },
    ],
  });
}

function because(report: Report, { reason, because: number, kept }: Layer): string {
  return reason === "" ? "" : `${number} of ${kept}: ${sentenceOf(report, reason)}`;
}
