// A chart of lines, with marks where something happened.

import { make, makeSvg } from "./dom";
import type { Lines, Series } from "./sections_data";

const WIDTH = 760;
const HEIGHT = 240;
const LEFT = 70;
const RIGHT = 36;
const TOP = 16;
const BOTTOM = 40;
const TICKS = 5;
/** The style sheet has so many colours of lines. */
const STYLES = 6;

class Scale {
  constructor(
    private readonly low: number,
    private readonly high: number,
    private readonly logarithmic: boolean,
  ) {}

  /** Where a value is, from 0 to 1; null if it has no place. */
  place(value: number): number | null {
    if (this.logarithmic && value <= 0) return null;
    const [low, high, at] = [this.low, this.high, value].map((each) =>
      this.logarithmic ? Math.log2(each) : each,
    ) as [number, number, number];
    return high === low ? 0.5 : (at - low) / (high - low);
  }

  /** Values at about the same distance, the ends among them. */
  ticks(): number[] {
    const steps = Array.from({ length: TICKS }, (_, tick) => tick / (TICKS - 1));
    if (!this.logarithmic) return steps.map((step) => this.low + step * (this.high - this.low));
    return steps.map((step) => this.low * (this.high / this.low) ** step);
  }
}

function scaleOf(values: readonly number[], logarithmic: boolean): Scale | null {
  const placed = logarithmic ? values.filter((value) => value > 0) : values;
  if (placed.length === 0) return null;
  const least = placed.reduce((one, other) => Math.min(one, other));
  const most = placed.reduce((one, other) => Math.max(one, other));
  if (logarithmic) return new Scale(least, most, true);
  return new Scale(Math.min(0, least), most > least || most > 0 ? most : 1, false);
}

export function shown(value: number): string {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return "infinite";
  const large = Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3;
  return large ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

/** A path through the points that have a place, with gaps where others are. */
function path(series: Series, x: (at: number) => number, y: (at: number) => number | null): string {
  let drawing = false;
  const parts: string[] = [];
  series.x.forEach((at, index) => {
    const value = series.y[index] ?? null;
    const height = value === null ? null : y(value);
    if (height === null) {
      drawing = false;
      return;
    }
    // A point alone is a line of no length, which has round ends.
    parts.push(`${drawing ? "L" : "M"}${x(at).toFixed(1)} ${height.toFixed(1)}`);
    if (!drawing) parts.push("h0");
    drawing = true;
  });
  return parts.join("");
}

export function lines(data: Lines): HTMLElement {
  const steps = data.series.flatMap((series) => [...series.x]);
  const values = data.series.flatMap((series) => series.y.filter((value) => value !== null));
  const across = new Scale(Math.min(...minMax(steps)), Math.max(...minMax(steps)), false);
  const up = scaleOf(values, data.logarithmic);
  const element = make("figure", {}, make("figcaption", {}, data.heading));
  const x = (at: number): number => LEFT + (across.place(at) ?? 0) * (WIDTH - LEFT - RIGHT);
  const y = (value: number): number | null => {
    const place = up?.place(value) ?? null;
    return place === null ? null : HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM);
  };
  const svg = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": data.heading,
  });
  for (const tick of up?.ticks() ?? []) {
    const at = y(tick) ?? 0;
    svg.append(
      makeSvg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }),
      makeSvg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, shown(tick)),
    );
  }
  for (const tick of new Set(across.ticks().map(Math.round))) {
    const attributes = { x: x(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" };
    svg.append(makeSvg("text", attributes, tick.toLocaleString("en")));
  }
  const middle = (LEFT + WIDTH - RIGHT) / 2;
  svg.append(makeSvg("text", { x: middle, y: HEIGHT - 6, "text-anchor": "middle" }, data.x));
  for (const mark of data.marks) {
    const at = x(mark.x);
    const kind = mark.good === true ? "mark good" : "mark";
    const line = makeSvg("line", { class: kind, x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM });
    line.append(makeSvg("title", {}, `${data.x} ${mark.x}: ${mark.text}`));
    svg.append(line);
  }
  data.series.forEach((series, number) => {
    const line = makeSvg("path", { class: `line s${number % STYLES}`, d: path(series, x, y) });
    line.append(makeSvg("title", {}, series.name));
    svg.append(line);
  });
  element.append(svg, legend(data));
  return element;
}

function minMax(values: readonly number[]): number[] {
  if (values.length === 0) return [0, 1];
  return [
    values.reduce((one, other) => Math.min(one, other)),
    values.reduce((one, other) => Math.max(one, other)),
  ];
}

function legend(data: Lines): HTMLElement {
  const entries = data.series.map((series, number) =>
    make(
      "li",
      {},
      make("span", { class: `key s${number % STYLES}`, "aria-hidden": "true" }),
      series.name,
    ),
  );
  for (const good of [false, true]) {
    const first = data.marks.find((mark) => (mark.good ?? false) === good);
    if (first === undefined) continue;
    const key = make("span", { class: good ? "key mark good" : "key mark", "aria-hidden": "true" });
    const what = good ? "healed" : "not finite";
    entries.push(make("li", {}, key, `${what} (first: ${data.x} ${first.x}, ${first.text})`));
  }
  return make("ul", { class: "legend" }, ...entries);
}
