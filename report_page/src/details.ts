// The panel about what is looked at: a node's story, or what is in a scope.

import { KEPT, NOT_FLOAT, type Report } from "./data";
import { look, ORDER } from "./decisions";
import { button, count, make, size } from "./dom";
import type { Expansion } from "./expansion";
import { shown } from "./lines";
import type { State } from "./state";
import { advice, castsAt, fedBy, sentenceOf, steps, type Telling } from "./story";
import type { Tree } from "./tree";

const MOST_LINES = 50;
/** As in graph.css. */
const NARROW = "(max-width: 980px)";

export class Details {
  readonly element = make("section", {
    class: "details",
    "aria-label": "Details",
    tabindex: -1,
  });

  constructor(
    private readonly tree: Tree,
    private readonly state: State,
    private readonly expansion: Expansion,
    private readonly goTo: (node: number) => void,
    private readonly say: (text: string) => void,
    private readonly back: () => void,
  ) {}

  /** On a narrow screen, where the details stand below the graph, scrolls to them. */
  bringIntoView(): void {
    if (matchMedia(NARROW).matches) this.element.scrollIntoView();
  }

  refresh(): void {
    const { selected } = this.state.shown;
    this.element.scrollTop = 0;
    if (selected < 0) {
      this.element.replaceChildren(
        make("p", { class: "hint" }, "Click a node for its story, or a scope to open it."),
      );
    } else if (this.tree.isScope(selected)) this.element.replaceChildren(...this.scope(selected));
    else this.element.replaceChildren(...this.node(selected));
  }

  private node(node: number): HTMLElement[] {
    const report = this.tree.report;
    const { style, letter } = look(report.decision(node));
    const op = report.op(node, "before");
    const now = report.op(node, "after");
    const found = [
      make(
        "h2",
        {},
        make("span", { class: `badge ${style}`, "aria-hidden": "true" }, letter),
        make("span", { class: "name", title: report.name(node) }, report.short(node)),
      ),
      button("Back to the graph", this.back, { class: "back" }),
      make(
        "p",
        { class: "verdict" },
        `${op}${now === op ? "" : `, then ${now}`}: ${report.decisionName(node)}`,
      ),
      this.facts(report, node),
    ];
    const cast = report.castAt.get(node);
    if (cast !== undefined) found.push(this.list("Cast", [this.castLine(node)]));
    if (report.isFloat(node)) found.push(this.list("Why", steps(report, node), "steps"));
    const rewrites = report.stored.some.rewrites[node] ?? [];
    found.push(
      this.list(
        "Rewritten",
        rewrites.map((line) => [line]),
      ),
    );
    found.push(this.advice(node));
    if (cast === undefined) {
      found.push(
        this.list(
          "Casts",
          castsAt(report, node).map((at) => this.castLine(at)),
        ),
      );
    }
    found.push(this.list("Fed by", fedBy(report, node)));
    const view = report.isIn(node, "before") ? "before" : "after";
    const readers = report
      .readersOf(node, view)
      .map((at): Telling => [
        { node: at, text: report.short(at) },
        ` (${report.op(at, view)}), ${report.decisionName(at)}`,
      ]);
    found.push(this.list("Read by", readers));
    found.push(this.calls(node));
    found.push(this.attributes(node));
    return found.filter((part) => part.childElementCount > 0 || part.textContent !== "");
  }

  private facts(report: Report, node: number): HTMLElement {
    const facts: [string, string][] = [];
    if (report.short(node) !== report.name(node)) facts.push(["full name", report.name(node)]);
    if (report.functionOf(node) !== "") facts.push(["function", report.functionOf(node)]);
    for (const [attribute, before, after] of report.dtypes(node)) {
      facts.push([attribute, before === after ? before : `${before} → ${after}`]);
    }
    if (report.isFloat(node)) {
      facts.push(["list", `${report.list(node)} (${report.listedBy(node)})`]);
      facts.push(["reason", report.reason(node)]);
    }
    if (report.shapes(node) !== "") facts.push(["output shape", report.shapes(node)]);
    if (report.values(node) !== "") facts.push(["values", report.values(node)]);
    const error = report.entered(node);
    if (error > 0) facts.push(["error enters", `${shown(error)} of float32's values`]);
    const remark = report.text(report.stored.some.remark[node]);
    if (remark !== "") facts.push(["note", remark]);
    if (report.device(node) !== "") facts.push(["device", report.device(node)]);
    const followers = report.stored.some.followers[node];
    if (followers !== undefined) {
      facts.push(["kept because it is", `${count(followers, "gray node")}`]);
    }
    const terms = facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
    return make("dl", {}, ...terms);
  }

  private attributes(node: number): HTMLElement {
    const attributes = this.tree.report.attributes(node);
    if (attributes.length === 0) return make("div");
    const terms = attributes.flatMap(([name, value]) => [
      make("dt", {}, name),
      make("dd", {}, value),
    ]);
    return make("div", {}, make("h3", {}, "Attributes"), make("dl", {}, ...terms));
  }

  private castLine(node: number): Telling {
    const cast = this.tree.report.castAt.get(node);
    if (cast === undefined) return [];
    const bytes = cast.bytes === null ? "" : `, ${size(cast.bytes)}`;
    const readers = `, read by ${cast.read_by}`;
    const text = this.tree.report.tensorOf(cast);
    const from = cast.of < 0 ? text : { node: cast.of, text };
    const link = { node, text: "Cast" };
    return [link, " of ", from, ` from ${cast.from} to ${cast.to}${bytes}${readers}`];
  }

  private advice(node: number): HTMLElement {
    const entries = advice(this.tree.report, node);
    if (entries.length === 0) return make("div");
    const items = entries.map(({ mixlist, effect }) => {
      const code = make("code", {}, mixlist);
      const copy = button("Copy", () => this.copy(code), { "aria-label": `Copy ${mixlist}` });
      return make("li", {}, `This mixlist ${effect}:`, make("pre", {}, code), copy);
    });
    return make(
      "div",
      {},
      make("h3", {}, "To change it"),
      make("ul", { class: "advice" }, ...items),
    );
  }

  private copy(code: HTMLElement): void {
    const selection = getSelection();
    selection?.selectAllChildren(code);
    const failed = (): void => this.say("The browser does not copy; the text is selected.");
    if (navigator.clipboard === undefined) {
      failed();
      return;
    }
    navigator.clipboard
      .writeText(code.textContent ?? "")
      .then(() => this.say("Copied."))
      .catch(failed);
  }

  private calls(node: number): HTMLElement {
    const report = this.tree.report;
    const graphs = report.stored.some.calls[node] ?? [];
    const items = graphs.map((graph) => {
      const item = this.tree.graphs[graph];
      const open = (): void => {
        if (item !== undefined) this.goTo(item);
      };
      const title = report.stored.graphs[graph] ?? "";
      return make("li", {}, button(report.graphNames[graph] ?? "", open, { class: "link", title }));
    });
    if (items.length === 0) return make("div");
    return make("div", {}, make("h3", {}, "Calls"), make("ul", {}, ...items));
  }

  private list(heading: string, lines: Telling[], kind = ""): HTMLElement {
    if (lines.length === 0) return make("div");
    const items = lines.slice(0, MOST_LINES).map((line) => make("li", {}, ...this.told(line)));
    if (lines.length > MOST_LINES) {
      items.push(
        make(
          "li",
          { class: "hint" },
          `and ${(lines.length - MOST_LINES).toLocaleString("en")} more`,
        ),
      );
    }
    const tag = kind === "steps" ? "ol" : "ul";
    return make("div", {}, make("h3", {}, heading), make(tag, { class: kind }, ...items));
  }

  private told(line: Telling): (Node | string)[] {
    return line.map((part) =>
      typeof part === "string"
        ? part
        : button(part.text, () => this.goTo(part.node), {
            class: "link",
            title: this.tree.report.name(part.node),
          }),
    );
  }

  private scope(item: number): HTMLElement[] {
    const { view } = this.state.shown;
    const report = this.tree.report;
    const scope = this.tree.scope(item);
    const isOpen = this.expansion.isOpen(item);
    const computing = scope.computing[view];
    const terms = ORDER.filter((decision) => computing[decision]).flatMap((decision) => {
      const { style, letter } = look(decision);
      return term(
        computing[decision] ?? 0,
        make("span", { class: `badge ${style}` }, letter),
        ` ${report.stored.decisions[decision] ?? ""}`,
      );
    });
    const nodes = this.tree.nodesIn(item).filter((node) => report.isIn(node, view));
    const sources = nodes.filter((node) => report.isSource(node)).length;
    const others = nodes.filter((node) => report.decision(node) === NOT_FLOAT).length;
    if (sources > 0) terms.push(...term(sources, "sources: constants, variables, arguments"));
    if (others > 0) terms.push(...term(others, "not float: nothing to decide"));
    const reasons = new Map<string, number>();
    for (const node of nodes) {
      if (report.decision(node) !== KEPT || report.isSource(node)) continue;
      reasons.set(report.reason(node), (reasons.get(report.reason(node)) ?? 0) + 1);
    }
    const kept = [...reasons].sort((one, other) => other[1] - one[1]);
    const toggle = (): void => this.expansion.toggle(item, view);
    return [
      make("h2", {}, make("span", { class: "name" }, scope.path || scope.label)),
      make("p", { class: "verdict" }, count(this.tree.total(item, view), "node")),
      button(isOpen ? "Close" : "Open", toggle),
      make("dl", {}, ...terms),
      this.list(
        "Why kept",
        kept.map(([reason, number]) => [
          `${number.toLocaleString("en")}: ${sentenceOf(report, reason)} (${reason})`,
        ]),
      ),
    ];
  }
}

function term(number: number, ...name: (Node | string)[]): HTMLElement[] {
  return [make("dt", {}, ...name), make("dd", {}, number.toLocaleString("en"))];
}
