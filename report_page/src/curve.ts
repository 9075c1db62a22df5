// How error grows with what is lowered: a small picture, and the same as a table.

import type { CurvePoint } from "./data";
import { make, makeSvg } from "./dom";

const WIDTH = 640;
const HEIGHT = 300;
const LEFT = 70;
const RIGHT = 20;
const TOP = 32;
const BOTTOM = 44;

function percent(share: number): string {
  return `${(100 * share).toFixed(1)}%`;
}

function number(error: number | null): string {
  if (error === null) return "infinite";
  return error === 0 ? "0" : error.toExponential(1);
}

export function curve(points: readonly CurvePoint[]): HTMLElement {
  const sorted = [...points].sort((one, other) => one.share - other.share);
  const rows = sorted.map((point) =>
    make(
      "tr",
      { class: point.chosen ? "chosen" : null },
      make("td", {}, point.label),
      make("td", { class: "number" }, percent(point.share)),
      make("td", { class: "number" }, number(point.error)),
      make("td", {}, point.chosen ? "chosen" : point.good ? "good enough" : "not good enough"),
    ),
  );
  const headings = ["", "lowered", "error", ""].map((text) => make("th", { scope: "col" }, text));
  return make(
    "div",
    { class: "curve" },
    make("h2", {}, "Error against the share that is lowered of what the mode lowers"),
    sorted.some(({ error }) => error !== null && error > 0) ? picture(sorted) : make("div"),
    make("table", {}, make("thead", {}, make("tr", {}, ...headings)), make("tbody", {}, ...rows)),
  );
}

function picture(points: readonly CurvePoint[]): SVGElement {
  const svg = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": "Error against the share that is lowered; the numbers are in the table below",
  });
  // Zero has no place on a logarithmic axis.
  const errors = points.flatMap(({ error }) => (error !== null && error > 0 ? [error] : []));
  const low = Math.floor(Math.log10(Math.min(...errors, 1)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...errors, 1e-12))), low + 1);
  const x = (share: number): number => LEFT + share * (WIDTH - LEFT - RIGHT);
  const y = (error: number): number =>
    TOP + ((high - Math.log10(error)) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const step = Math.ceil((high - low) / 6);
  for (let power = low; power <= high; power += step) {
    const at = y(10 ** power);
    svg.append(
      makeSvg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }),
      makeSvg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, `1e${power}`),
    );
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const attributes = { x: x(share), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" };
    svg.append(makeSvg("text", attributes, `${100 * share}%`));
  }
  svg.append(
    makeSvg(
      "text",
      { x: x(0.5), y: HEIGHT - 6, "text-anchor": "middle" },
      "lowered, of the nodes that the mode lowers",
    ),
  );
  for (const { share, error, label, good, chosen } of points) {
    if (error === 0) continue;
    const what = `${label}: ${percent(share)}, ${number(error)}`;
    // What is infinite stands above all that is not.
    const height = error === null ? TOP / 2 : y(error);
    const dot = makeSvg("circle", { cx: x(share), cy: height, r: chosen ? 7 : 4 });
    dot.setAttribute("class", chosen ? "chosen" : good ? "good" : "bad");
    dot.append(makeSvg("title", {}, what));
    svg.append(dot);
  }
  if (points.some(({ error }) => error === null)) {
    svg.append(makeSvg("text", { x: LEFT - 8, y: TOP / 2 + 4, "text-anchor": "end" }, "infinite"));
  }
  return svg;
}
