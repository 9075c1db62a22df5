// A page of sections: what happened first, and the pictures and numbers that show it.

import { make } from "./dom";
import { heat } from "./heat";
import { lines } from "./lines";
import type { Section, Sections, TableData } from "./sections_data";
import { themeSwitch } from "./theme";

function table(data: TableData): HTMLElement {
  const kind = (column: number): { class: string | null } => ({
    class: column >= data.numbers_from ? "number" : null,
  });
  const head = data.headings.map((text, column) =>
    make("th", { scope: "col", ...kind(column) }, text),
  );
  const rows = data.rows.map((row) =>
    make("tr", {}, ...row.map((text, column) => make("td", kind(column), text))),
  );
  const more = data.of > data.rows.length ? `the first ${data.rows.length} of ${data.of}` : "";
  return make(
    "div",
    { class: "scrolls" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
    make("p", { class: "faint" }, more),
  );
}

function section(data: Section): HTMLElement {
  const element = make("section", { class: "section" }, make("h2", {}, data.heading));
  element.append(...data.notes.map((text) => make("p", {}, text)));
  if (data.code !== "") element.append(make("pre", { tabindex: 0 }, data.code));
  element.append(...data.charts.map(lines));
  if (data.heat !== null) element.append(heat(data.heat));
  if (data.table !== null) element.append(table(data.table));
  return element;
}

export function showSections(data: Sections): void {
  document.title = `npu-precision ${data.kind}: ${data.title}`;
  const page = document.getElementById("page");
  if (page === null) throw new Error("this page has no place for sections");
  page.className = "sections";
  const findings = data.findings.map((text) => make("li", {}, text));
  page.append(
    make(
      "header",
      {},
      make("div", { class: "summary" }, make("h1", {}, data.title), make("ul", {}, ...findings)),
      themeSwitch(() => {}),
    ),
    ...data.sections.map(section),
  );
}
