// The scopes as a tree of text: the graph for those who do not see it, or have no mouse.

import type { Expansion } from "./expansion";
import { make } from "./dom";
import { look } from "./decisions";
import { shares } from "./labels";
import type { Order } from "./order";
import type { State } from "./state";
import type { Tree } from "./tree";
import { Windowed } from "./windowed";

const ROW_HEIGHT = 24;

interface Row {
  item: number;
  level: number;
  place: number;
  siblings: number;
}

export class Outline {
  readonly element = make("div", {
    class: "outline",
    role: "tree",
    tabindex: 0,
    "aria-label": "Scopes and nodes",
  });
  private readonly windowed: Windowed;
  private rows: Row[] = [];
  private readonly rowOf = new Map<number, number>();

  constructor(
    private readonly tree: Tree,
    private readonly state: State,
    private readonly expansion: Expansion,
    private readonly order: Order,
    private readonly clicked: (item: number) => void,
  ) {
    const rows = { count: () => this.rows.length, render: (row: number) => this.render(row) };
    this.windowed = new Windowed(this.element, rows, ROW_HEIGHT);
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    this.element.addEventListener("focus", () => {
      // Only for the keyboard: this replaces the rows, and the click of a mouse would be lost.
      const byKeyboard = this.element.matches(":focus-visible");
      if (byKeyboard && !this.rowOf.has(this.state.shown.selected)) this.select(0);
    });
  }

  /** Shows what is open now. */
  refresh(): void {
    this.rows = [];
    this.rowOf.clear();
    const { view, ordered } = this.state.shown;
    const visit = (parent: number, level: number): void => {
      const inside = this.tree.children(parent, view);
      const children = ordered ? this.order.sorted(inside) : inside;
      children.forEach((item, index) => {
        this.rowOf.set(item, this.rows.length);
        this.rows.push({ item, level, place: index + 1, siblings: children.length });
        if (this.expansion.isOpen(item)) visit(item, level + 1);
      });
    };
    visit(this.tree.root, 1);
    this.mark();
  }

  /** Shows what is looked at. */
  mark(): void {
    const { selected } = this.state.shown;
    const row = this.rowOf.get(selected);
    this.windowed.refresh();
    if (row !== undefined) this.windowed.show(row);
    if (row === undefined) this.element.removeAttribute("aria-activedescendant");
    else this.element.setAttribute("aria-activedescendant", `outline-${selected}`);
  }

  private render(number: number): HTMLElement {
    const { item, level, place, siblings } = this.rows[number] as Row;
    const isScope = this.tree.isScope(item);
    const isOpen = isScope && this.expansion.isOpen(item);
    const isSelected = item === this.state.shown.selected;
    const row = make("div", {
      class: "row",
      role: "treeitem",
      id: `outline-${item}`,
      "aria-level": level,
      "aria-posinset": place,
      "aria-setsize": siblings,
      "aria-expanded": isScope ? String(isOpen) : null,
      "aria-selected": String(isSelected),
      title: this.tree.fullName(item) || this.tree.label(item),
      click: () => {
        this.state.set({ selected: item });
        if (isScope) this.expansion.toggle(item, this.state.shown.view);
        else this.clicked(item);
      },
    });
    row.style.paddingInlineStart = `${4 + (level - 1) * 14}px`;
    row.append(make("span", { class: "twist", "aria-hidden": "true" }, twist(isScope, isOpen)));
    if (!isScope) {
      const decision = this.tree.report.decision(item);
      const { letter, style } = look(decision);
      const name = this.tree.report.decisionName(item);
      row.append(
        make("span", { class: `badge ${style}`, role: "img", "aria-label": name }, letter),
      );
    }
    row.append(make("span", { class: "name" }, this.tree.label(item)));
    if (isScope) {
      row.append(make("span", { class: "shares" }, shares(this.tree, item, this.state.shown.view)));
    }
    return row;
  }

  private select(row: number): void {
    const found = this.rows[Math.max(0, Math.min(row, this.rows.length - 1))];
    if (found !== undefined) this.state.set({ selected: found.item });
  }

  private pressed(event: KeyboardEvent): void {
    const { selected, view } = this.state.shown;
    const row = this.rowOf.get(selected) ?? -1;
    const isScope = row >= 0 && this.tree.isScope(selected);
    const isOpen = isScope && this.expansion.isOpen(selected);
    const actions: Record<string, () => void> = {
      ArrowDown: () => this.select(row + 1),
      ArrowUp: () => this.select(row - 1),
      Home: () => this.select(0),
      End: () => this.select(this.rows.length - 1),
      PageDown: () => this.select(row + this.windowed.page()),
      PageUp: () => this.select(row - this.windowed.page()),
      ArrowRight: () => {
        if (isScope && !isOpen) this.expansion.toggle(selected, view);
        else if (isOpen) this.select(row + 1);
      },
      ArrowLeft: () => {
        if (isOpen) this.expansion.close(selected);
        else if (row >= 0) this.toParent(selected);
      },
      Enter: () => {
        if (isScope) this.expansion.toggle(selected, view);
      },
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  }

  private toParent(item: number): void {
    const parent = this.tree.parent(item);
    if (parent !== this.tree.root) this.state.set({ selected: parent });
  }
}

function twist(isScope: boolean, isOpen: boolean): string {
  if (!isScope) return "";
  return isOpen ? "▾" : "▸";
}
