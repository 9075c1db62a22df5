// The popup that says which keys do what, and under which licences the page is.

import { ORDER, look } from "./decisions";
import { button, make } from "./dom";

export const KEYS: readonly [keys: string, what: string][] = [
  ["/", "search; Enter goes to the node, Esc empties the field"],
  ["↑ ↓", "in the graph: to what feeds the node, to what reads it"],
  ["← →", "in the graph: to the neighbours on the left and right"],
  ["Enter", "open or close a scope; of a node, go to its story"],
  ["Backspace", "in the graph: to the scope around it"],
  ["g", "to the graph"],
  ["o", "to the outline, a tree of all scopes and nodes: ↑ ↓, → opens, ← closes"],
  ["d", "to the details"],
  ["t", "to the table of nodes, and back to the graph"],
  ["r", "to the table of ranges, and back to the graph"],
  ["b", "before or after the rewrite"],
  ["c", "show or hide control inputs"],
  ["e", "the outline in the order of execution, or of the file"],
  ["+ − 0", "in the graph: larger, smaller, all"],
  ["Esc", "look at nothing; close this popup"],
  ["?", "this popup"],
];

export class Help {
  readonly element: HTMLDialogElement;

  constructor() {
    const keys = KEYS.flatMap(([names, what]) => [
      make("dt", {}, ...names.split(" ").map((name) => make("kbd", {}, name))),
      make("dd", {}, what),
    ]);
    const licences = document.getElementById("licences")?.textContent ?? "";
    this.element = make(
      "dialog",
      { class: "help", "aria-label": "Help" },
      make("h2", {}, "Keys"),
      make("dl", {}, ...keys),
      make("h2", {}, "Signs"),
      legend(),
      make(
        "p",
        {},
        "A closed scope shows how much of it is of each decision. A thick line stands for several ",
        "tensors, a dashed one for a control input.",
      ),
      make(
        "details",
        {},
        make("summary", {}, "Licences of what this page is made of"),
        make("pre", {}, licences.trim()),
      ),
      button("Close", () => this.element.close(), { autofocus: true }),
    );
  }

  toggle(): void {
    if (this.element.open) this.element.close();
    else this.element.showModal();
  }
}

/** What each sign means. */
export function legend(): HTMLElement {
  const items = ORDER.map((decision) => {
    const { letter, style, meaning } = look(decision);
    return make(
      "li",
      {},
      make("span", { class: `badge ${style}`, "aria-hidden": "true" }, letter),
      ` ${meaning}`,
    );
  });
  return make("ul", { class: "legend", "aria-label": "Signs" }, ...items);
}
