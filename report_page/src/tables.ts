// The tables: of all nodes, of the ranges of their values, of the Casts, and of the op types.

import type { OpRow, Report } from "./data";
import { look } from "./decisions";
import { make, size } from "./dom";
import { dtypesIn } from "./labels";
import { shown } from "./lines";
import { type Column, Table } from "./table";

export function nodeTable(report: Report, goTo: (node: number) => void): Table {
  const column = nodeColumns(report);
  const entered: Column = {
    heading: "error enters",
    width: "7rem",
    value: (node) => report.entered(node),
    show: (node) => (report.entered(node) === 0 ? "" : shown(report.entered(node))),
  };
  const rows: number[] = [];
  for (let node = 0; node < report.size; node++) if (report.isFloat(node)) rows.push(node);
  return new Table({
    label: "Nodes",
    rows,
    text: (node) => `${report.name(node)} ${report.op(node, "before")}`,
    open: goTo,
    columns: [
      column.node,
      column.op,
      column.decision,
      { heading: "list", width: "5.5rem", choose: true, value: (node) => report.list(node) },
      column.reason,
      {
        heading: "dtypes",
        width: "minmax(7rem, 1.5fr)",
        value: (node) => changes(report, node),
      },
      {
        heading: "gray it keeps",
        width: "6.5rem",
        value: (node) => report.stored.some.followers[node] ?? 0,
        show: (node) => report.stored.some.followers[node]?.toLocaleString("en") ?? "",
      },
      ...(report.isCompared ? [entered] : []),
      column.function,
    ],
  });
}

function decision(report: Report, node: number): Node {
  const { style, letter } = look(report.decision(node));
  const badge = make("span", { class: `badge ${style}`, "aria-hidden": "true" }, letter);
  return make("span", {}, badge, ` ${report.decisionName(node)}`);
}

function changes(report: Report, node: number): string {
  const before = dtypesIn(report, node, "before");
  const after = dtypesIn(report, node, "after");
  return before === after ? before : `${before} → ${after}`;
}

/** The columns that several tables of nodes have. */
function nodeColumns(
  report: Report,
): Record<"node" | "op" | "decision" | "reason" | "function", Column> {
  return {
    node: {
      heading: "node",
      width: "minmax(10rem, 4fr)",
      value: (node) => report.short(node),
      title: (node) => report.name(node),
    },
    op: {
      heading: "op type",
      width: "minmax(6rem, 2fr)",
      choose: true,
      value: (node) => report.op(node, "before"),
    },
    decision: {
      heading: "decision",
      width: "7rem",
      choose: true,
      value: (node) => report.decisionName(node),
      show: (node) => decision(report, node),
    },
    reason: {
      heading: "reason",
      width: "minmax(7rem, 2fr)",
      choose: true,
      value: (node) => report.reason(node),
    },
    function: {
      heading: "function",
      width: "minmax(5rem, 2fr)",
      choose: true,
      value: (node) => report.shortFunctionOf(node),
    },
  };
}

/** The float nodes of whose values something is known, those with the largest first. */
export function rangeTable(report: Report, goTo: (node: number) => void): Table {
  const column = nodeColumns(report);
  const magnitude = (node: number): number => {
    const [low, high] = report.range(node) ?? [null, null];
    return Math.max(Math.abs(low ?? 0), Math.abs(high ?? 0));
  };
  const end = (heading: string, which: 0 | 1): Column => ({
    heading,
    width: "8rem",
    value: (node) => report.range(node)?.[which] ?? null,
    show: (node) => report.text(report.range(node)?.[which === 0 ? 2 : 3]) || "?",
  });
  return new Table({
    label: "Ranges",
    rows: Object.keys(report.stored.some.range)
      .map(Number)
      .sort((one, other) => magnitude(other) - magnitude(one)),
    text: (node) => `${report.name(node)} ${report.op(node, "before")}`,
    open: goTo,
    columns: [
      column.node,
      column.op,
      end("low", 0),
      end("high", 1),
      column.decision,
      column.reason,
      column.function,
    ],
  });
}

export function castTable(report: Report, goTo: (node: number) => void): Table {
  const casts = report.stored.casts;
  const at = (row: number) => casts[row] as (typeof casts)[number];
  const rows = casts
    .map((_, row) => row)
    .sort((one, other) => (at(other).bytes ?? -1) - (at(one).bytes ?? -1));
  return new Table({
    label: "Casts",
    rows,
    text: (row) => at(row).tensor,
    open: (row) => goTo(at(row).node),
    columns: [
      {
        heading: "of tensor",
        width: "minmax(10rem, 4fr)",
        value: (row) => report.tensorOf(at(row)),
        title: (row) => at(row).tensor,
      },
      { heading: "from", width: "6rem", choose: true, value: (row) => at(row).from },
      { heading: "to", width: "6rem", choose: true, value: (row) => at(row).to },
      {
        heading: "size",
        width: "7rem",
        value: (row) => at(row).bytes,
        show: (row) => {
          const { bytes } = at(row);
          return bytes === null ? "?" : size(bytes);
        },
      },
      { heading: "read by", width: "5rem", value: (row) => at(row).read_by },
      {
        heading: "function",
        width: "minmax(5rem, 2fr)",
        choose: true,
        value: (row) => report.shortFunctionOf(at(row).node),
      },
    ],
  });
}

export function opTable(report: Report): Table {
  const ops = report.stored.by_op;
  const at = (row: number) => ops[row] as OpRow;
  const counted = (counts: Record<string, number>): string => {
    const entries = Object.entries(counts);
    if (entries.length === 1) return entries[0]?.[0] ?? "";
    return entries.map(([name, number]) => `${name} ${number}`).join(", ");
  };
  return new Table({
    label: "Op types",
    rows: ops.map((_, row) => row),
    text: (row) => at(row).op,
    columns: [
      { heading: "op type", width: "minmax(8rem, 2fr)", value: (row) => at(row).op },
      { heading: "nodes", width: "5rem", value: (row) => at(row).nodes },
      { heading: "lowered", width: "5rem", value: (row) => at(row).lowered },
      { heading: "raised", width: "5rem", value: (row) => at(row).raised },
      { heading: "kept", width: "5rem", value: (row) => at(row).kept },
      { heading: "list", width: "minmax(6rem, 1fr)", value: (row) => counted(at(row).lists) },
      {
        heading: "why kept",
        width: "minmax(8rem, 3fr)",
        value: (row) => counted(at(row).reasons),
      },
    ],
  });
}
