// A small picture of errors, on a logarithmic axis.

import { makeSvg } from "./dom";

const WIDTH = 640;
const HEIGHT = 300;
const LEFT = 70;
const RIGHT = 20;
const TOP = 32;
const BOTTOM = 44;

export interface Dot {
  /** Where it is from left to right, from 0 to 1. */
  at: number;
  /** The ends of what it may be, as `at`. */
  bar?: readonly [from: number, to: number];
  /** Its height; null is infinite. */
  error: number | null;
  title: string;
  good: boolean;
  chosen: boolean;
}

export interface Axis {
  name: string;
  ticks: readonly { at: number; text: string }[];
  /** Where there is a vertical line. */
  line?: number;
}

export function shownError(error: number | null): string {
  if (error === null) return "infinite";
  return error === 0 ? "0" : error.toExponential(1);
}

/** A picture; nothing if no error has a place on the axis, as zero has none. */
export function chart(label: string, dots: readonly Dot[], axis: Axis): SVGElement | string {
  const drawn = dots.filter(({ error }) => error === null || error > 0);
  const errors = drawn.flatMap(({ error }) => error ?? []);
  if (errors.length === 0) return "";
  const svg = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    role: "img",
    "aria-label": label,
  });
  const low = Math.floor(Math.log10(Math.min(...errors, 1)));
  const high = Math.max(Math.ceil(Math.log10(Math.max(...errors, 1e-12))), low + 1);
  const x = (at: number): number => LEFT + at * (WIDTH - LEFT - RIGHT);
  // What is infinite stands above all that is not.
  const y = (error: number | null): number =>
    error === null
      ? TOP / 2
      : TOP + ((high - Math.log10(error)) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const step = Math.ceil((high - low) / 6);
  for (let power = low; power <= high; power += step) {
    const at = y(10 ** power);
    svg.append(
      makeSvg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }),
      makeSvg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, `1e${power}`),
    );
  }
  for (const { at, text } of axis.ticks) {
    const attributes = { x: x(at), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" };
    svg.append(makeSvg("text", attributes, text));
  }
  svg.append(makeSvg("text", { x: x(0.5), y: HEIGHT - 6, "text-anchor": "middle" }, axis.name));
  if (axis.line !== undefined) {
    const at = x(axis.line);
    svg.append(makeSvg("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
  }
  for (const { at, bar, error, title, good, chosen } of drawn) {
    const height = y(error);
    if (bar !== undefined) {
      const [x1, x2] = [x(bar[0]), x(bar[1])];
      svg.append(makeSvg("line", { class: "bar", x1, x2, y1: height, y2: height }));
    }
    const dot = makeSvg("circle", { cx: x(at), cy: height, r: chosen ? 7 : 4 });
    dot.setAttribute("class", chosen ? "chosen" : good ? "good" : "bad");
    dot.append(makeSvg("title", {}, title));
    svg.append(dot);
  }
  if (drawn.some(({ error }) => error === null)) {
    svg.append(makeSvg("text", { x: LEFT - 8, y: TOP / 2 + 4, "text-anchor": "end" }, "infinite"));
  }
  return svg;
}
