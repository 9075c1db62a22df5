// The error against the step time, as measured: a small picture, and the same as a table.

import { chart, shownError } from "./chart";
import type { TimedPoint, Times } from "./data";
import { make } from "./dom";

function remarks(point: TimedPoint): string {
  const all = [point.chosen ? "chosen" : point.good ? "good enough" : "not good enough"];
  if (point.front) all.push("on the front");
  return all.join(", ");
}

function span([low, high]: readonly [number, number]): string {
  return `${low.toFixed(2)} to ${high.toFixed(2)}`;
}

export function front({ measure, points }: Times): HTMLElement {
  const sorted = [...points].sort((one, other) => one.ratio - other.ratio);
  const most = Math.max(...sorted.map(({ quartiles }) => quartiles[1])) * 1.05;
  const dots = sorted.map(({ label, ratio, quartiles, worse, good, chosen }) => ({
    at: ratio / most,
    bar: [quartiles[0] / most, quartiles[1] / most] as const,
    error: worse,
    title: `${label}: ${ratio.toFixed(2)} (${span(quartiles)}), ${shownError(worse)}`,
    good,
    chosen,
  }));
  const rows = sorted.map((point) =>
    make(
      "tr",
      { class: point.chosen ? "chosen" : null },
      make("td", {}, point.label),
      make("td", { class: "number" }, point.ratio.toFixed(2)),
      make("td", {}, span(point.quartiles)),
      make("td", { class: "number" }, shownError(point.worse)),
      make("td", {}, remarks(point)),
    ),
  );
  const headings = ["", "time", "quartiles", measure, ""];
  const head = headings.map((text) => make("th", { scope: "col" }, text));
  return make(
    "section",
    { class: "front" },
    make("h2", {}, "Error against the step time, as a multiple of float32's"),
    chart("Error against the step time; the numbers are in the table below", dots, {
      name: "step time, as a multiple of float32's; bars are quartiles",
      ticks: [0, 1].map((ratio) => ({ at: ratio / most, text: `${ratio}` })),
      line: 1 / most,
    }),
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
  );
}
