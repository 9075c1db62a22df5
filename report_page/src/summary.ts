// What the page begins with: the model, the options, and what became of it in numbers.

import { bar } from "./bar";
import { KEPT, LOWERED, RAISED, type Report } from "./data";
import { count, make } from "./dom";
import { functionName } from "./names";

function shares(report: Report): HTMLElement {
  const { float_nodes, lowered, raised, kept } = report.stored.totals;
  const parts = [
    [LOWERED, lowered],
    [RAISED, raised],
    [KEPT, kept],
  ] as const;
  return bar(parts, float_nodes);
}

export function titleOf(report: Report): string {
  return functionName(report.stored.title);
}

export function summary(report: Report): HTMLElement {
  const { model, kind, signature, warnings, mappings, graphs, counts } = report.stored;
  const functions = graphs.length - 1;
  const about = [
    kind,
    signature === "" ? "" : `signature ${signature}`,
    functions > 0 ? count(functions, "function") : "",
  ].filter(Boolean);
  const given = Object.entries(report.stored.options).map(([name, value]) => `${name} ${value}`);
  const options = given.join(", ") || "default options";
  // What a user asks first stands before the first semicolon.
  const [first = ""] = counts.split(";");
  const rest = counts.slice(first.length);
  const element = make(
    "section",
    { class: "summary", "aria-label": "Summary" },
    make("h1", { title: model }, titleOf(report), " ", make("small", {}, about.join(", "))),
    make("p", { class: "options", title: options }, options),
    shares(report),
    // On a phone, where two lines are shown, a tap gives it the focus, and so shows the rest.
    make("p", { class: "totals", tabindex: 0 }, make("b", {}, first), rest),
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
