// Draws the graph: what the open scopes hold, laid out, with what reads what.

import cytoscape, { type Core, type ElementDefinition } from "cytoscape";
import type { View } from "./data";
import { type Edge, edgesBetween, edgesByScope } from "./edges";
import type { Expansion } from "./expansion";
import { gradient, graphStyle } from "./graph_style";
import { lines, sizeOf } from "./labels";
import { type Layout, Layouter, type Point, type Size } from "./layout";
import { way } from "./routing";
import type { State } from "./state";
import type { Tree } from "./tree";

const MOST_ZOOM = 1.2;
const LEAST_ZOOM = 0.6;

export class GraphView {
  readonly cy: Core;
  private readonly layouter = new Layouter();
  private edgesOf: { view: View; control: boolean; edges: Map<number, Edge[]> } | null = null;
  private places = new Map<number, Point>();
  private sizes = new Map<number, Size>();
  private matches: ReadonlySet<number> = new Set();
  private isFitted = false;
  /** Whether the last click but one, and the last one, opened a scope. */
  private tapsOpened: [boolean, boolean] = [false, false];

  constructor(
    container: HTMLElement,
    private readonly tree: Tree,
    private readonly state: State,
    private readonly expansion: Expansion,
    private readonly clicked: (node: number) => void,
  ) {
    this.cy = cytoscape({
      container,
      autoungrabify: true,
      autounselectify: true,
      boxSelectionEnabled: false,
      minZoom: 0.02,
      maxZoom: 3,
      style: graphStyle(),
    });
    this.cy.on("tap", "node", (event) => this.tapped(Number(event.target.id())));
    this.cy.on("mouseover", "node", (event) => {
      const item = Number(event.target.id());
      container.title = tree.fullName(item) || tree.label(item);
    });
    this.cy.on("mouseout", "node", () => container.removeAttribute("title"));
    this.cy.on("dbltap", "node.open", (event) => {
      // Not by the second half of the double click that opened it.
      if (!this.tapsOpened[0]) expansion.close(Number(event.target.id()));
    });
  }

  private tapped(item: number): void {
    const opens = this.tree.isScope(item) && !this.expansion.isOpen(item);
    this.tapsOpened = [this.tapsOpened[1], opens];
    this.state.set({ selected: item });
    if (opens) this.expansion.toggle(item, this.state.shown.view);
    if (!this.tree.isScope(item)) this.clicked(item);
  }

  /** Draws anew; what changed stays where it was on the screen. */
  draw(changed = -1): void {
    const { view, control } = this.state.shown;
    const drawn = this.expansion.drawn(view);
    const isOpen = (item: number): boolean => this.expansion.isOpen(item);
    const before = this.onScreen(changed);
    this.sizes = this.sizesOf(drawn, view, isOpen);
    const layout = this.layOut(view, control, isOpen);
    this.places = layout.places;
    const edges = edgesBetween(this.tree, view, control, drawn, isOpen);
    const elements = [
      ...drawn.map((item) => this.nodeElement(item, view, isOpen(item))),
      ...edges.map((edge) => this.edgeElement(edge, layout)),
    ];
    this.cy.batch(() => {
      this.cy.elements().remove();
      this.cy.add(elements);
    });
    this.mark();
    const after = this.onScreen(changed);
    if (!this.isFitted) this.begin();
    else if (before !== null && after !== null) {
      this.cy.panBy({ x: before.x - after.x, y: before.y - after.y });
    }
  }

  /** Shows all, or, where that would be too small to be read, the upper part of what matters. */
  begin(): void {
    this.fit();
    if (!this.isFitted || this.cy.zoom() >= LEAST_ZOOM) return;
    const main = this.cy.getElementById(String(this.tree.mainScope(this.state.shown.view)));
    const box = (main.empty() ? this.cy.elements() : main).boundingBox();
    this.cy.zoom(LEAST_ZOOM);
    this.cy.center(main.empty() ? undefined : main);
    this.cy.pan({ x: this.cy.pan().x, y: 24 - box.y1 * LEAST_ZOOM });
  }

  /** Shows all. */
  fit(): void {
    this.cy.resize();
    if (this.cy.width() < 20 || this.cy.elements().empty()) return;
    this.cy.fit(undefined, 24);
    if (this.cy.zoom() > MOST_ZOOM) {
      this.cy.zoom(MOST_ZOOM);
      this.cy.center();
    }
    this.isFitted = true;
  }

  zoom(factor: number): void {
    const middle = { x: this.cy.width() / 2, y: this.cy.height() / 2 };
    this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: middle });
  }

  /** Brings an item into sight, large enough to be read. */
  show(item: number): void {
    const node = this.cy.getElementById(String(item));
    if (node.empty()) return;
    const extent = this.cy.extent();
    const box = node.boundingBox();
    const isInSight =
      box.x1 >= extent.x1 && box.x2 <= extent.x2 && box.y1 >= extent.y1 && box.y2 <= extent.y2;
    if (isInSight && this.cy.zoom() > 0.5) return;
    if (this.cy.zoom() < 0.7 && !this.tree.isScope(item)) this.cy.zoom(0.9);
    this.cy.center(node);
  }

  setMatches(matches: ReadonlySet<number>): void {
    this.matches = matches;
    this.mark();
  }

  /** Where an item is drawn; null if it is not. */
  place(item: number): Point | null {
    return this.places.get(item) ?? null;
  }

  restyle(): void {
    this.cy.style(graphStyle());
    this.draw();
  }

  /** Marks what is looked at, and what was found. */
  mark(): void {
    const { selected } = this.state.shown;
    this.cy.batch(() => {
      this.cy.elements().removeClass("selected near match");
      const node = this.cy.getElementById(String(selected));
      node.addClass("selected");
      node.connectedEdges().addClass("near");
      if (this.matches.size === 0) return;
      for (const drawn of this.cy.nodes()) {
        const item = Number(drawn.id());
        const isMatch = this.tree.isScope(item)
          ? drawn.hasClass("closed") && this.tree.nodesIn(item).some((at) => this.matches.has(at))
          : this.matches.has(item);
        if (isMatch) drawn.addClass("match");
      }
    });
  }

  private onScreen(item: number): Point | null {
    const place = this.places.get(item);
    const size = this.sizes.get(item);
    if (place === undefined || size === undefined) return null;
    const pan = this.cy.pan();
    const zoom = this.cy.zoom();
    return { x: place.x * zoom + pan.x, y: (place.y - size.height / 2) * zoom + pan.y };
  }

  private sizesOf(
    drawn: readonly number[],
    view: View,
    isOpen: (item: number) => boolean,
  ): Map<number, Size> {
    const sizes = new Map<number, Size>();
    for (const item of drawn) {
      if (!isOpen(item)) sizes.set(item, sizeOf(this.tree, item, view));
    }
    return sizes;
  }

  private layOut(view: View, control: boolean, isOpen: (item: number) => boolean): Layout {
    if (this.edgesOf?.view !== view || this.edgesOf.control !== control) {
      this.edgesOf = { view, control, edges: edgesByScope(this.tree, view, control) };
      this.layouter.forget();
    }
    const { edges } = this.edgesOf;
    const layout = this.layouter.layOut({
      root: this.tree.root,
      children: (item) => this.tree.children(item, view),
      isOpen,
      size: (item) => this.sizes.get(item) ?? { width: 40, height: 20 },
      edges: (scope) => edges.get(scope) ?? [],
    });
    this.sizes = layout.sizes;
    return layout;
  }

  private nodeElement(item: number, view: View, isOpen: boolean): ElementDefinition {
    const size = this.sizes.get(item) ?? { width: 40, height: 20 };
    const data: Record<string, unknown> = { id: String(item), ...size };
    let kind = "open";
    if (isOpen) {
      data.label = `▾ ${this.tree.label(item)}`;
      data.depth = this.tree.pathTo(item).length;
    } else {
      data.label = lines(this.tree, item, view).join("\n");
      if (this.tree.isScope(item)) {
        kind = "closed";
        const { computing, counts } = this.tree.scope(item);
        const computes = computing[view].some((number) => number > 0);
        Object.assign(data, gradient((computes ? computing : counts)[view]));
      } else kind = `d${this.tree.report.decision(item)}`;
    }
    const position = { ...(this.places.get(item) ?? { x: 0, y: 0 }) };
    return { group: "nodes", data, position, classes: kind, pannable: true };
  }

  private edgeElement(edge: Edge, layout: Layout): ElementDefinition {
    const points = way(edge, this.tree, layout);
    const bends = bendsOf(points);
    // An end, as cytoscape wants it: from the middle of the node.
    const end = (item: number, point: Point | undefined): string =>
      `0 ${(point?.y ?? 0) - (layout.places.get(item)?.y ?? 0)}`;
    const data: Record<string, unknown> = {
      id: `${edge.from}-${edge.to}`,
      source: String(edge.from),
      target: String(edge.to),
      sourceEnd: end(edge.from, points[0]),
      targetEnd: end(edge.to, points[points.length - 1]),
      width: Math.min(1 + Math.log2(edge.tensors), 6),
      ...bends,
    };
    const classes = [edge.control ? "control" : "", bends !== null ? "bent" : ""];
    return { group: "edges", data, classes: classes.join(" ") };
  }
}

/** The bends of a line, as cytoscape wants them: along the straight line, and away from it. */
function bendsOf(points: readonly Point[]): { weights: string; distances: string } | null {
  const start = points[0];
  const end = points[points.length - 1];
  if (points.length < 3 || start === undefined || end === undefined) return null;
  const along = { x: end.x - start.x, y: end.y - start.y };
  const length = Math.hypot(along.x, along.y);
  if (length < 1) return null;
  const weights: number[] = [];
  const distances: number[] = [];
  for (const { x, y } of points.slice(1, -1)) {
    const away = { x: x - start.x, y: y - start.y };
    weights.push((away.x * along.x + away.y * along.y) / length ** 2);
    distances.push((away.y * along.x - away.x * along.y) / length);
  }
  return { weights: weights.join(" "), distances: distances.join(" ") };
}
