// A heat map: a row per scope, a column per step, and a layer that is shown at a time.

import { button, make, makeSvg, shortened } from "./dom";
import { shown } from "./lines";
import type { Heat, Layer } from "./sections_data";

const WIDTH = 760;
const NAMES = 240;
const ROW = 16;
const AXIS = 24;
const LONGEST = 33;

function shade(value: number, [none, full]: readonly [number, number]): number {
  return Math.min(Math.max((value - none) / (full - none), 0), 1);
}

/** What holds a NaN is as wrong as it can be, whatever the layer shows. */
function opacity(value: number | null, nans: number, layer: Layer): string {
  if (nans > 0) return "1";
  return value === null ? "0" : shade(value, layer.ends).toFixed(3);
}

function picture(data: Heat, layer: Layer): SVGElement {
  const height = data.rows.length * ROW + AXIS;
  const width = (WIDTH - NAMES) / Math.max(data.columns.length, 1);
  const svg = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${height}`,
    role: "img",
    "aria-label": `${layer.name}, ${data.heading}`,
  });
  data.rows.forEach((name, row) => {
    const label = makeSvg(
      "text",
      { x: NAMES - 8, y: row * ROW + 12, "text-anchor": "end" },
      shortened(name, LONGEST),
    );
    label.append(makeSvg("title", {}, name));
    svg.append(label);
    data.columns.forEach((step, column) => {
      const value = layer.values[row]?.[column] ?? null;
      const nans = data.nans[row]?.[column] ?? 0;
      const cell = makeSvg("rect", {
        class: nans > 0 ? "cell nan" : "cell",
        x: NAMES + column * width,
        y: row * ROW,
        width: Math.max(width - 0.5, 0.5),
        height: ROW - 1,
        "fill-opacity": opacity(value, nans, layer),
      });
      const known = value === null ? "nothing but zeros" : `${shown(value)} ${layer.unit}`;
      const text = nans > 0 ? `${shown(100 * nans)} % NaN` : known;
      cell.append(makeSvg("title", {}, `${name}, step ${step}: ${text}`));
      svg.append(cell);
    });
  });
  const ends = [data.columns[0], data.columns[data.columns.length - 1]];
  ends.forEach((step, end) => {
    if (step === undefined || (end === 1 && data.columns.length === 1)) return;
    const x = end === 0 ? NAMES : WIDTH;
    const anchor = end === 0 ? "start" : "end";
    const attributes = { x, y: height - 8, "text-anchor": anchor };
    svg.append(makeSvg("text", attributes, `step ${step.toLocaleString("en")}`));
  });
  return svg;
}

export function heat(data: Heat): HTMLElement {
  const frame = make("div", { class: "heat" });
  const buttons = data.layers.map((layer) => button(layer.name, () => show(layer)));
  function show(layer: Layer): void {
    data.layers.forEach((each, number) =>
      buttons[number]?.setAttribute("aria-pressed", String(each === layer)),
    );
    const [none, full] = layer.ends;
    const range = `no colour: ${shown(none)}, full colour: ${shown(full)} ${layer.unit}`;
    const hasNans = data.nans.some((row) => row.some((nans) => (nans ?? 0) > 0));
    const key = make("span", { class: "key nan", "aria-hidden": "true" });
    const sign = hasNans ? ["; ", key, "NaN"] : [];
    frame.replaceChildren(picture(data, layer), make("p", { class: "faint" }, range, ...sign));
  }
  const [first] = data.layers;
  if (first !== undefined) show(first);
  return make(
    "figure",
    {},
    make("figcaption", {}, data.heading),
    make("div", { class: "layers" }, ...buttons),
    frame,
  );
}
