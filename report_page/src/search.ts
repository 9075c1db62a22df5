// The field that finds nodes, and the list of what it found.

import { look } from "./decisions";
import { button, count, make } from "./dom";
import { search } from "./matching";
import type { State } from "./state";
import type { Tree } from "./tree";
import { Windowed } from "./windowed";

const ROW_HEIGHT = 24;
const MOST_IN_SIGHT = 12;

export interface SearchActions {
  goTo(node: number): void;
  matched(nodes: ReadonlySet<number>): void;
  openAll(nodes: readonly number[]): void;
}

export class Search {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly list = make("div", {
    class: "results",
    id: "results",
    role: "listbox",
    "aria-label": "Found nodes",
  });
  private readonly told = make("span", { role: "status", class: "count" });
  private readonly popup: HTMLElement;
  private readonly windowed: Windowed;
  private found: number[] = [];
  private active = 0;

  constructor(
    private readonly tree: Tree,
    private readonly state: State,
    private readonly actions: SearchActions,
  ) {
    this.input = make("input", {
      id: "search",
      type: "search",
      placeholder: "search, or /regex/",
      role: "combobox",
      autocomplete: "off",
      spellcheck: "false",
      "aria-label": "Search names and op types",
      "aria-controls": "results",
      "aria-expanded": "false",
      "aria-autocomplete": "list",
      input: () => this.search(),
      focus: () => this.search(),
      keydown: (event) => this.pressed(event as KeyboardEvent),
    });
    const openAll = button("Open all in the graph", () => {
      this.close();
      this.actions.openAll(this.found);
    });
    this.popup = make(
      "div",
      { class: "popup", hidden: true },
      make("div", { class: "found" }, this.told, openAll),
      this.list,
    );
    this.element = make("div", { class: "search" }, this.input, this.popup);
    const rows = { count: () => this.found.length, render: (row: number) => this.render(row) };
    this.windowed = new Windowed(this.list, rows, ROW_HEIGHT);
    document.addEventListener("pointerdown", (event) => {
      if (!this.element.contains(event.target as Node)) this.close();
    });
    this.element.addEventListener("focusout", (event) => {
      const to = event.relatedTarget;
      if (to instanceof Node && !this.element.contains(to)) this.close();
    });
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  /** Looks for a text as if it had been typed. */
  showFor(text: string): void {
    this.input.value = text;
    this.search();
  }

  /** Finds again, in what is shown now. */
  refresh(): void {
    if (this.input.value !== "" && !this.popup.hidden) this.search();
  }

  private search(): void {
    const wanted = this.input.value;
    const { nodes, error } = search(this.tree.report, wanted, this.state.shown.view);
    this.found = nodes;
    this.active = this.best(wanted);
    this.popup.hidden = wanted === "";
    this.input.setAttribute("aria-expanded", String(wanted !== ""));
    this.input.setAttribute("aria-invalid", String(error !== ""));
    this.told.textContent = error === "" ? `${count(nodes.length, "node")} found` : error;
    const rows = Math.min(nodes.length, MOST_IN_SIGHT);
    this.list.style.height = `${rows * ROW_HEIGHT}px`;
    this.list.scrollTop = 0;
    this.windowed.show(this.active);
    this.windowed.refresh();
    this.mark();
    this.actions.matched(new Set(nodes));
  }

  /** Where Enter goes: what has this name, else the first node that computes. */
  private best(wanted: string): number {
    const report = this.tree.report;
    const named = this.found.findIndex((node) =>
      [report.name(node), report.short(node)].includes(wanted),
    );
    if (named >= 0) return named;
    const isOp = (node: number): boolean => report.isFloat(node) && !report.isSource(node);
    return Math.max(0, this.found.findIndex(isOp));
  }

  private mark(): void {
    const id = `result-${this.active}`;
    if (this.found.length > 0) this.input.setAttribute("aria-activedescendant", id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  private render(row: number): HTMLElement {
    const node = this.found[row] as number;
    const report = this.tree.report;
    const { letter, style } = look(report.decision(node));
    const inside = report.shortFunctionOf(node);
    const { view } = this.state.shown;
    const other = view === "before" ? "after" : "before";
    const only = report.isIn(node, view) ? "" : `only ${other}`;
    return make(
      "div",
      {
        class: "row",
        role: "option",
        id: `result-${row}`,
        "aria-selected": String(row === this.active),
        "aria-posinset": row + 1,
        "aria-setsize": this.found.length,
        title: report.name(node),
        click: () => this.choose(row),
      },
      make("span", { class: `badge ${style}`, "aria-hidden": "true" }, letter),
      make("span", { class: "name" }, report.short(node)),
      make("span", { class: "op" }, report.op(node, this.state.shown.view)),
      make("span", { class: "op" }, inside === "" ? "" : `in ${inside}`),
      make("span", { class: "op" }, only),
    );
  }

  private choose(row: number): void {
    const node = this.found[row];
    if (node === undefined) return;
    this.close();
    this.actions.goTo(node);
  }

  private close(): void {
    this.popup.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  private pressed(event: KeyboardEvent): void {
    const last = this.found.length - 1;
    const moves: Record<string, number> = {
      ArrowDown: Math.min(this.active + 1, last),
      ArrowUp: Math.max(this.active - 1, 0),
    };
    const to = moves[event.key];
    if (to !== undefined && last >= 0) {
      this.active = to;
      this.windowed.show(to);
      this.windowed.refresh();
      this.mark();
    } else if (event.key === "Enter") this.choose(this.active);
    else if (event.key === "Escape" && !this.popup.hidden) {
      event.stopPropagation();
      this.input.value = "";
      this.search();
    } else return;
    event.preventDefault();
  }
}
