// A table that can be filtered and sorted, however long it is.

import { count, make } from "./dom";
import { Windowed } from "./windowed";

const ROW_HEIGHT = 28;
const MOST_CHOICES = 500;

export interface Column {
  heading: string;
  /** The cell of a row; numbers are sorted as such. */
  value(row: number): string | number | null;
  /** How a cell is shown, where that is not its value. */
  show?: (row: number) => Node | string;
  /** What hovering shows, where that is not the value. */
  title?: (row: number) => string;
  /** Whether the filter is a choice between its values. */
  choose?: boolean;
  /** Of the width of all. */
  width: string;
}

export interface TableOptions {
  label: string;
  columns: Column[];
  rows: number[];
  /** What is found by the field for text. */
  text(row: number): string;
  /** What Enter and a click do. */
  open?: (row: number) => void;
}

export class Table {
  readonly element: HTMLElement;
  private readonly body: HTMLElement;
  private readonly windowed: Windowed;
  private readonly headings: HTMLElement[];
  private readonly counted = make("span", { class: "count", role: "status" });
  private readonly text: HTMLInputElement;
  private readonly choices: { column: Column; select: HTMLSelectElement }[];
  private shown: number[];
  private active = -1;
  private sorted: { column: number; down: boolean } | null = null;

  constructor(private readonly options: TableOptions) {
    const { columns, label } = options;
    this.shown = options.rows;
    this.text = make("input", {
      type: "search",
      placeholder: "filter by text",
      "aria-label": `Filter ${label} by text`,
      spellcheck: "false",
      input: () => this.filter(),
    });
    this.choices = columns
      .filter((column) => column.choose)
      .map((column) => ({ column, select: this.choice(column) }));
    this.headings = columns.map((column, number) => this.heading(column, number));
    const header = make("div", { class: "row header", role: "row" }, ...this.headings);
    this.body = make("div", { class: "body", role: "rowgroup", tabindex: 0, "aria-label": label });
    const columnsOf = columns.map((column) => column.width).join(" ");
    this.element = make(
      "div",
      { class: "table" },
      make(
        "div",
        { class: "filters", role: "group", "aria-label": `Filters of ${label}` },
        this.text,
        ...this.choices.map(({ select }) => select),
        this.counted,
      ),
      make("div", { class: "grid", role: "table", "aria-label": label }, header, this.body),
    );
    this.element.style.setProperty("--columns", columnsOf);
    const rows = { count: () => this.shown.length, render: (row: number) => this.render(row) };
    this.windowed = new Windowed(this.body, rows, ROW_HEIGHT);
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    this.filter();
  }

  focus(): void {
    this.text.focus();
  }

  private choice(column: Column): HTMLSelectElement {
    const values = new Map<string, number>();
    for (const row of this.options.rows) {
      const value = String(column.value(row) ?? "");
      values.set(value, (values.get(value) ?? 0) + 1);
    }
    const sorted = [...values].sort((one, other) => other[1] - one[1]).slice(0, MOST_CHOICES);
    const select = make("select", {
      "aria-label": `Filter by ${column.heading}`,
      change: () => this.filter(),
    });
    select.append(make("option", { value: "*" }, `${column.heading}: all`));
    for (const [value, number] of sorted) {
      const name = value === "" ? "none" : value;
      select.append(make("option", { value: `=${value}` }, `${name} (${number})`));
    }
    return select;
  }

  private heading(column: Column, number: number): HTMLElement {
    const sort = make(
      "button",
      { type: "button", click: () => this.sortBy(number) },
      column.heading,
    );
    const isNumber = this.options.rows.some((row) => isNumberIn(column, row));
    const named = isNumber ? "number" : null;
    return make("span", { role: "columnheader", "aria-sort": "none", class: named }, sort);
  }

  private sortBy(column: number): void {
    const down = this.sorted?.column === column && !this.sorted.down;
    this.sorted = { column, down };
    this.headings.forEach((heading, number) => {
      const order = down ? "descending" : "ascending";
      heading.setAttribute("aria-sort", number === column ? order : "none");
    });
    this.filter();
  }

  private filter(): void {
    const wanted = this.text.value.toLowerCase();
    const chosen = this.choices.filter(({ select }) => select.value !== "*");
    this.shown = this.options.rows.filter(
      (row) =>
        (wanted === "" || this.options.text(row).toLowerCase().includes(wanted)) &&
        chosen.every(({ column, select }) => select.value === `=${column.value(row) ?? ""}`),
    );
    this.sort();
    this.active = -1;
    this.counted.textContent =
      this.shown.length === this.options.rows.length
        ? count(this.shown.length, "row")
        : `${this.shown.length.toLocaleString("en")} of ${count(this.options.rows.length, "row")}`;
    this.body.parentElement?.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.body.scrollTop = 0;
    this.windowed.refresh();
  }

  private sort(): void {
    const sorted = this.sorted;
    const column = sorted === null ? undefined : this.options.columns[sorted.column];
    if (sorted === null || column === undefined) return;
    const sign = sorted.down ? -1 : 1;
    this.shown.sort((one, other) => sign * compare(column.value(one), column.value(other)));
  }

  private render(number: number): HTMLElement {
    const row = this.shown[number] as number;
    const cells = this.options.columns.map((column) => {
      const value = column.value(row);
      const shown = column.show?.(row) ?? (value === null ? "?" : String(value));
      return make(
        "span",
        {
          role: "cell",
          class: isNumberIn(column, row) ? "number" : null,
          title: column.title?.(row) ?? String(value ?? "?"),
        },
        shown,
      );
    });
    return make(
      "div",
      {
        class: `row${number === this.active ? " active" : ""}${this.options.open ? " opens" : ""}`,
        role: "row",
        id: `row-${this.options.label.replace(/\W/g, "-")}-${number}`,
        "aria-rowindex": number + 2,
        click: () => this.options.open?.(row),
      },
      ...cells,
    );
  }

  private pressed(event: KeyboardEvent): void {
    const last = this.shown.length - 1;
    const moves: Record<string, number> = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + this.windowed.page(),
      PageUp: this.active - this.windowed.page(),
      Home: 0,
      End: last,
    };
    const to = moves[event.key];
    const row = this.shown[this.active];
    if (event.key === "Enter" && row !== undefined) this.options.open?.(row);
    else if (to === undefined || last < 0) return;
    else {
      this.active = Math.max(0, Math.min(to, last));
      this.windowed.show(this.active);
      this.windowed.refresh();
      const id = `row-${this.options.label.replace(/\W/g, "-")}-${this.active}`;
      this.body.setAttribute("aria-activedescendant", id);
    }
    event.preventDefault();
  }
}

function isNumberIn(column: Column, row: number): boolean {
  return typeof column.value(row) === "number" && column.show === undefined;
}

const collator = new Intl.Collator("en", { numeric: true });

/** What is not known comes last, upwards. */
function compare(one: string | number | null, other: string | number | null): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  if (typeof one === "number" && typeof other === "number") return one - other;
  return collator.compare(String(one), String(other));
}
