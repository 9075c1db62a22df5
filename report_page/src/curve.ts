// How error grows with what is lowered: a small picture, and the same as a table.

import { chart, shownError } from "./chart";
import type { CurvePoint } from "./data";
import { make } from "./dom";

const AXIS = {
  name: "lowered, of the nodes that the mode lowers",
  ticks: [0, 0.25, 0.5, 0.75, 1].map((share) => ({ at: share, text: `${100 * share}%` })),
};

function percent(share: number): string {
  return `${(100 * share).toFixed(1)}%`;
}

export function curve(points: readonly CurvePoint[]): HTMLElement {
  const sorted = [...points].sort((one, other) => one.share - other.share);
  const dots = sorted.map(({ share, error, label, good, chosen }) => ({
    at: share,
    error,
    title: `${label}: ${percent(share)}, ${shownError(error)}`,
    good,
    chosen,
  }));
  const rows = sorted.map((point) =>
    make(
      "tr",
      { class: point.chosen ? "chosen" : null },
      make("td", {}, point.label),
      make("td", { class: "number" }, percent(point.share)),
      make("td", { class: "number" }, shownError(point.error)),
      make("td", {}, point.chosen ? "chosen" : point.good ? "good enough" : "not good enough"),
    ),
  );
  const headings = ["", "lowered", "error", ""].map((text) => make("th", { scope: "col" }, text));
  return make(
    "section",
    {},
    make("h2", {}, "Error against the share that is lowered of what the mode lowers"),
    chart(
      "Error against the share that is lowered; the numbers are in the table below",
      dots,
      AXIS,
    ),
    make("table", {}, make("thead", {}, make("tr", {}, ...headings)), make("tbody", {}, ...rows)),
  );
}
