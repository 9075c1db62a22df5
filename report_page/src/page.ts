// The page: its parts, and what happens between them.

import { curve } from "./curve";
import type { Report, View } from "./data";
import { Details } from "./details";
import { addressOf, namedIn } from "./address";
import { button, count, make } from "./dom";
import { Expansion } from "./expansion";
import { front } from "./front";
import { neighbour } from "./graph_keys";
import { GraphView } from "./graph_view";
import { type Layer, layersOf, layerTable, strip } from "./layers";
import { Help, legend } from "./help";
import { Order } from "./order";
import { Outline } from "./outline";
import { Search } from "./search";
import { State, type Tab } from "./state";
import { summary, titleOf } from "./summary";
import { castTable, nodeTable, opTable, rangeTable } from "./tables";
import { themeSwitch } from "./theme";
import { Tree } from "./tree";

const TAB_NAMES: Record<Tab, string> = {
  graph: "Graph",
  layers: "Layers",
  nodes: "Nodes",
  ranges: "Ranges",
  casts: "Casts",
  ops: "Op types",
  curve: "Curve",
};

export class Page {
  private readonly state = new State();
  private readonly tree: Tree;
  private readonly expansion: Expansion;
  private readonly order: Order;
  private readonly outline: Outline;
  private readonly details: Details;
  private readonly search: Search;
  private readonly help = new Help();
  private readonly live = make("div", { class: "live", role: "status", "aria-live": "polite" });
  private readonly canvas = make("div", {
    class: "canvas",
    id: "canvas",
    role: "application",
    tabindex: 0,
    "aria-label": "Graph. Arrows move, Enter opens; the outline has the same as text.",
  });
  private readonly panels = new Map<Tab, HTMLElement>();
  private readonly tabs = new Map<Tab, HTMLButtonElement>();
  private graph: GraphView | null = null;

  constructor(private readonly report: Report) {
    this.tree = new Tree(report);
    this.expansion = new Expansion(this.tree, this.state.shown.view);
    this.order = new Order(this.tree);
    const clicked = (): void => this.details.bringIntoView();
    this.outline = new Outline(this.tree, this.state, this.expansion, this.order, clicked);
    const goTo = (item: number): void => this.goTo(item);
    this.details = new Details(
      this.tree,
      this.state,
      this.expansion,
      goTo,
      (text) => this.say(text),
      () => this.canvas.scrollIntoView(),
    );
    this.search = new Search(this.tree, this.state, {
      goTo,
      matched: (nodes) => this.graph?.setMatches(nodes),
      openAll: (nodes) => this.openAll(nodes),
    });
  }

  start(): void {
    document.title = `${titleOf(this.report)}: precision report`;
    const page = document.getElementById("page") as HTMLElement;
    page.append(
      make(
        "header",
        {},
        summary(this.report),
        make(
          "div",
          { class: "tools" },
          this.search.element,
          themeSwitch(() => this.graph?.restyle()),
          button("Keys (?)", () => this.help.toggle()),
        ),
      ),
      this.makeTabs(),
      ...this.panels.values(),
      this.live,
      this.help.element,
    );
    this.graph = new GraphView(this.canvas, this.tree, this.state, this.expansion, () =>
      this.details.bringIntoView(),
    );
    this.graph.draw();
    this.outline.refresh();
    this.details.refresh();
    this.listen();
    this.openAddress();
  }

  private listen(): void {
    this.expansion.listen((changed) => {
      this.graph?.draw(changed);
      this.outline.refresh();
      this.details.refresh();
    });
    this.state.listen((now, before) => {
      if (now.view !== before.view || now.control !== before.control) {
        this.graph?.draw(now.selected);
        this.outline.refresh();
        this.search.refresh();
        this.details.refresh();
      }
      if (now.ordered !== before.ordered) this.outline.refresh();
      if (now.selected !== before.selected) {
        this.writeAddress();
        this.graph?.mark();
        this.outline.mark();
        this.details.refresh();
        if (now.selected >= 0) this.say(this.described(now.selected));
      }
      if (now.tab !== before.tab) this.showTab(now.tab);
    });
    addEventListener("popstate", () => this.openAddress());
    document.addEventListener("keydown", (event) => this.pressed(event));
    this.canvas.addEventListener("keydown", (event) => this.pressedInGraph(event));
    this.canvas.addEventListener("focus", () => {
      const first = this.expansion.drawn(this.state.shown.view)[0];
      if (this.state.shown.selected < 0 && first !== undefined) this.state.set({ selected: first });
    });
  }

  private makeTabs(): HTMLElement {
    const goTo = (node: number): void => this.goTo(node);
    const layers = layersOf(this.tree, this.order);
    this.panels.set("graph", this.graphPanel(layers));
    if (layers.length > 1) this.panels.set("layers", layerTable(this.tree, layers, goTo).element);
    this.panels.set("nodes", nodeTable(this.report, goTo).element);
    this.panels.set("ranges", rangeTable(this.report, goTo).element);
    this.panels.set("casts", castTable(this.report, goTo).element);
    this.panels.set("ops", opTable(this.report).element);
    const { curve: points, times } = this.report.stored;
    if (points.length > 0) {
      const parts = [curve(points), ...(times === null ? [] : [front(times)])];
      this.panels.set("curve", make("div", { class: "curve" }, ...parts));
    }
    const list = make("div", { class: "tabs", role: "tablist", "aria-label": "Parts" });
    for (const [tab, panel] of this.panels) {
      panel.id = `panel-${tab}`;
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", `tab-${tab}`);
      const element = button(TAB_NAMES[tab], () => this.state.set({ tab }), {
        role: "tab",
        id: `tab-${tab}`,
        "aria-controls": panel.id,
      });
      this.tabs.set(tab, element);
      list.append(element);
    }
    list.addEventListener("keydown", (event) => this.pressedInTabs(event));
    this.showTab(this.state.shown.tab);
    return list;
  }

  private graphPanel(layers: readonly Layer[]): HTMLElement {
    const views = (["before", "after"] as const).map((view) => this.viewButton(view));
    const control = make("input", {
      type: "checkbox",
      change: () => this.state.set({ control: control.checked }),
    });
    this.state.listen((now) => {
      control.checked = now.control;
    });
    const ordered = make("input", {
      type: "checkbox",
      change: () => this.state.set({ ordered: ordered.checked }),
    });
    this.state.listen((now) => {
      ordered.checked = now.ordered;
    });
    const zoom = make(
      "div",
      { class: "zoom", role: "group", "aria-label": "Size" },
      button("+", () => this.graph?.zoom(1.3), { "aria-label": "Larger" }),
      button("−", () => this.graph?.zoom(1 / 1.3), { "aria-label": "Smaller" }),
      button("All", () => this.graph?.fit()),
      button("Close all", () => {
        this.expansion.reset(this.state.shown.view);
        this.graph?.begin();
      }),
    );
    return make(
      "div",
      { class: "graph" },
      make(
        "div",
        { class: "toolbar" },
        make("div", { class: "views", role: "group", "aria-label": "Graph" }, ...views),
        make("label", {}, control, " control inputs"),
        make("label", {}, ordered, " outline in order of execution"),
        zoom,
        legend(),
      ),
      layers.length > 1 ? strip(this.tree, layers, (scope) => this.goTo(scope)) : "",
      make("div", { class: "panes" }, this.outline.element, this.canvas, this.details.element),
    );
  }

  private viewButton(view: View): HTMLButtonElement {
    const element = button(view === "before" ? "Before" : "After", () => this.state.set({ view }));
    const mark = (): void =>
      element.setAttribute("aria-pressed", String(this.state.shown.view === view));
    this.state.listen(mark);
    mark();
    return element;
  }

  private showTab(shown: Tab): void {
    for (const [tab, panel] of this.panels) panel.hidden = tab !== shown;
    for (const [tab, element] of this.tabs) {
      element.setAttribute("aria-selected", String(tab === shown));
      element.tabIndex = tab === shown ? 0 : -1;
    }
  }

  /** Shows a node or scope in the graph, whatever it is in. */
  private goTo(item: number): void {
    const { view } = this.state.shown;
    const other = view === "before" ? "after" : "before";
    if (!this.tree.isIn(item, view)) this.state.set({ view: other });
    this.state.set({ tab: "graph", selected: item });
    this.expansion.reveal(item, this.state.shown.view);
    this.graph?.show(item);
    this.canvas.focus({ preventScroll: true });
    if (!this.tree.isScope(item)) this.details.bringIntoView();
  }

  /** Goes to the node that the address names. */
  private openAddress(): void {
    const named = namedIn(this.report, location.hash);
    if (named === null) return;
    if (named.node < 0) this.search.showFor(named.name);
    else if (named.node !== this.state.shown.selected) this.goTo(named.node);
  }

  private writeAddress(): void {
    const { selected } = this.state.shown;
    const isNode = selected >= 0 && !this.tree.isScope(selected);
    const address = isNode ? addressOf(this.report, selected) : "#";
    if (address !== (location.hash || "#")) history.pushState(null, "", address);
  }

  private openAll(nodes: readonly number[]): void {
    const { view } = this.state.shown;
    const scopes = new Set(nodes.flatMap((node) => this.tree.pathTo(node).slice(0, -1)));
    this.state.set({ tab: "graph" });
    const opened = this.expansion.openScopes([...scopes], view);
    this.graph?.begin();
    this.canvas.focus({ preventScroll: true });
    const rest = scopes.size - opened;
    const more = rest > 0 ? `; ${rest.toLocaleString("en")} more would be too much to draw` : "";
    this.say(`${count(opened, "scope")} open${more}.`);
  }

  private described(item: number): string {
    const name = this.tree.fullName(item) || this.tree.label(item);
    if (!this.tree.isScope(item)) {
      const op = this.report.op(item, this.state.shown.view);
      return `${name}, ${op}, ${this.report.decisionName(item)}`;
    }
    const open = this.expansion.isOpen(item) ? "open" : "closed";
    const nodes = count(this.tree.total(item, this.state.shown.view), "node");
    return `scope ${name}, ${open}, ${nodes}`;
  }

  private say(text: string): void {
    this.live.textContent = text;
  }

  private pressed(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const isField = target.matches("input[type=search], select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || isField || this.help.element.open) return;
    const { tab, view, control, ordered } = this.state.shown;
    const table = (wanted: Tab) => (): void => {
      this.state.set({ tab: tab === wanted ? "graph" : wanted });
      this.tabs.get(this.state.shown.tab)?.focus();
    };
    const actions: Record<string, () => void> = {
      "/": () => this.search.focus(),
      "?": () => this.help.toggle(),
      b: () => this.state.set({ view: view === "before" ? "after" : "before" }),
      c: () => this.state.set({ control: !control }),
      e: () => this.state.set({ ordered: !ordered }),
      t: table("nodes"),
      r: table("ranges"),
      g: () => this.focusIn(this.canvas),
      o: () => this.focusIn(this.outline.element),
      d: () => this.focusIn(this.details.element),
      Escape: () => this.state.set({ selected: -1 }),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  }

  private focusIn(element: HTMLElement): void {
    this.state.set({ tab: "graph" });
    element.focus();
  }

  private pressedInGraph(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selected, view, control } = this.state.shown;
    const move = (direction: "up" | "down" | "left" | "right") => (): void => {
      if (this.graph === null) return;
      const { tree, expansion, graph } = this;
      const to = neighbour(tree, expansion, graph, selected, direction, view, control);
      this.state.set({ selected: to });
      this.graph.show(to);
    };
    const actions: Record<string, () => void> = {
      ArrowUp: move("up"),
      ArrowDown: move("down"),
      ArrowLeft: move("left"),
      ArrowRight: move("right"),
      Enter: () => {
        if (selected < 0) return;
        if (this.tree.isScope(selected)) this.expansion.toggle(selected, view);
        else this.details.element.focus();
      },
      Backspace: () => {
        const parent = selected < 0 ? -1 : this.tree.parent(selected);
        if (parent >= 0 && parent !== this.tree.root) this.state.set({ selected: parent });
      },
      "+": () => this.graph?.zoom(1.3),
      "-": () => this.graph?.zoom(1 / 1.3),
      "0": () => this.graph?.fit(),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  }

  private pressedInTabs(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const tabs = [...this.tabs.keys()];
    const next = (tabs.indexOf(this.state.shown.tab) + step + tabs.length) % tabs.length;
    const tab = tabs[next] ?? "graph";
    this.state.set({ tab });
    this.tabs.get(tab)?.focus();
  }
}
