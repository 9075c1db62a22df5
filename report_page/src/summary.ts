// What the page begins with: the model, the options, and what became of it in numbers.

import { bar } from "./bar";
import { KEPT, LOWERED, RAISED, type Report } from "./data";
import { count, make, size } from "./dom";

function totals(report: Report): string {
  const { float_nodes, lowered, raised, casts, cast_bytes, casts_of_unknown_size } =
    report.stored.totals;
  if (float_nodes === 0) return "no node has a dtype that this mode is about";
  const more = raised > 0 ? `, raised ${raised.toLocaleString("en")}` : "";
  const nodes = `${lowered.toLocaleString("en")} of ${count(float_nodes, "float node")}`;
  const unknown = `${casts_of_unknown_size.toLocaleString("en")} whose sizes the graph does not tell`;
  let bytes = "";
  if (cast_bytes > 0) {
    bytes = ` of ${size(cast_bytes)}${casts_of_unknown_size > 0 ? ` and ${unknown}` : ""}`;
  } else if (casts_of_unknown_size > 0) bytes = ", whose sizes the graph does not tell";
  return `lowered ${nodes}${more}, ${count(casts, "Cast")}${bytes}`;
}

function shares(report: Report): HTMLElement {
  const { float_nodes, lowered, raised, kept } = report.stored.totals;
  const parts = [
    [LOWERED, lowered],
    [RAISED, raised],
    [KEPT, kept],
  ] as const;
  return bar(parts, float_nodes);
}

export function summary(report: Report): HTMLElement {
  const { model, kind, signature, options, warnings, mappings, graphs } = report.stored;
  const functions = graphs.length - 1;
  const about = [
    kind,
    signature === "" ? "" : `signature ${signature}`,
    functions > 0 ? count(functions, "function") : "",
  ];
  const given = Object.entries(options).map(([name, value]) => `${name} ${value}`);
  const element = make(
    "section",
    { class: "summary", "aria-label": "Summary" },
    make("h1", {}, model, make("small", {}, about.filter(Boolean).join(", "))),
    make("p", { class: "options" }, given.join(", ") || "default options"),
    shares(report),
    make("p", { class: "totals" }, totals(report)),
  );
  const notes = [
    ...warnings.map((text) => `warning: ${text}`),
    ...mappings.map(
      ({ place, entry, ops }) =>
        `${place}: ${entry} stands for ${ops.join(", ") || "no op type of TensorFlow"}`,
    ),
  ];
  if (notes.length > 0) {
    element.append(
      make(
        "details",
        { class: "notes", open: notes.length <= 3 },
        make("summary", {}, count(notes.length, "note")),
        make("ul", {}, ...notes.map((text) => make("li", {}, text))),
      ),
    );
  }
  return element;
}
