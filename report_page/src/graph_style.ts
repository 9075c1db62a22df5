// How the graph looks, in the colours of the page's theme.

import type { StylesheetJson } from "cytoscape";
import type { Counts } from "./tree";
import { look, ORDER } from "./decisions";
import { FONT, FONT_SIZE } from "./labels";
import { HEADING } from "./layout";

/** A colour of the style sheet: "--kept-fill". */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Of a closed scope: how much of it is of each decision, from left to right. */
export function gradient(counts: Counts): { colours: string; stops: string } {
  const total = counts.reduce((sum, count) => sum + count, 0) || 1;
  const colours: string[] = [];
  const stops: string[] = [];
  let at = 0;
  for (const decision of ORDER) {
    const count = counts[decision] ?? 0;
    if (count === 0) continue;
    const fill = colour(`--${look(decision).style}-fill`);
    colours.push(fill, fill);
    stops.push(`${(at / total) * 100}%`, `${((at + count) / total) * 100}%`);
    at += count;
  }
  return { colours: colours.join(" "), stops: stops.join(" ") };
}

export function graphStyle(): StylesheetJson {
  const ink = colour("--ink");
  const accent = colour("--accent");
  // Cytoscape knows more properties and forms of values than its types do.
  const decisions = ORDER.map((decision) => ({
    selector: `node.d${decision}`,
    style: {
      shape: look(decision).shape,
      "background-color": colour(`--${look(decision).style}-fill`),
      "border-color": colour(`--${look(decision).style}-line`),
    },
  }));
  const style = [
    {
      selector: "node",
      style: {
        width: "data(width)",
        height: "data(height)",
        label: "data(label)",
        color: ink,
        "font-family": FONT,
        "font-size": FONT_SIZE,
        "text-wrap": "wrap",
        "text-valign": "center",
        "line-height": 1.25,
        "border-width": 1.5,
        "overlay-opacity": 0,
        "z-index-compare": "manual",
        "z-index": 2000,
        "min-zoomed-font-size": 5,
      },
    },
    ...decisions,
    {
      selector: "node.closed",
      style: {
        shape: "round-rectangle",
        "background-fill": "linear-gradient",
        "background-gradient-direction": "to-right",
        "background-gradient-stop-colors": "data(colours)",
        "background-gradient-stop-positions": "data(stops)",
        "border-color": colour("--line-strong"),
        "border-width": 3,
        "border-style": "double",
      },
    },
    {
      selector: "node.open",
      style: {
        shape: "round-rectangle",
        "background-color": colour("--scope"),
        "border-color": colour("--line-strong"),
        "border-width": 1,
        "text-valign": "top",
        "text-margin-y": HEADING,
        "font-weight": "bold",
        "z-index": "data(depth)",
      },
    },
    {
      selector: "edge",
      style: {
        width: "data(width)",
        "line-color": colour("--edge"),
        "target-arrow-color": colour("--edge"),
        "target-arrow-shape": "triangle",
        "arrow-scale": 0.8,
        "curve-style": "straight",
        "source-endpoint": "data(sourceEnd)",
        "target-endpoint": "data(targetEnd)",
        "z-index-compare": "manual",
        "z-index": 1000,
        "overlay-opacity": 0,
        events: "no",
      },
    },
    {
      selector: "edge.bent",
      style: {
        "curve-style": "round-segments",
        "edge-distances": "endpoints",
        "segment-weights": "data(weights)",
        "segment-distances": "data(distances)",
        "segment-radii": 10,
      },
    },
    { selector: "edge.control", style: { "line-style": "dashed" } },
    {
      selector: "edge.near",
      style: {
        "line-color": accent,
        "target-arrow-color": accent,
        "z-index": 1500,
      },
    },
    { selector: "node.match", style: { "outline-color": colour("--match"), "outline-width": 4 } },
    {
      selector: "node.selected",
      style: { "border-color": accent, "border-width": 4, "border-style": "solid" },
    },
  ];
  return style as unknown as StylesheetJson;
}
