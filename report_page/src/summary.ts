// What the page begins with: the model, the options, and what became of it in numbers.

import { bar } from "./bar";
import { KEPT, LOWERED, RAISED, type Report } from "./data";
import { count, make } from "./dom";

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
    make("p", { class: "totals" }, report.stored.counts),
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
