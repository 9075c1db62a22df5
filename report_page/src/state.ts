// What the page shows at the moment, and who wants to know when that changes.

import type { View } from "./data";

export type Tab = "graph" | "layers" | "nodes" | "ranges" | "casts" | "ops" | "curve";

export interface Shown {
  tab: Tab;
  view: View;
  /** The item that is looked at: a node, a scope, or -1. */
  selected: number;
  /** Whether the graph shows who waits for whom. */
  control: boolean;
  /** Whether the outline is in the order of execution; else it is in that of the file. */
  ordered: boolean;
}

type Listener = (shown: Readonly<Shown>, before: Readonly<Shown>) => void;

export class State {
  private now: Shown = {
    tab: "graph",
    view: "after",
    selected: -1,
    control: false,
    ordered: false,
  };
  private readonly listeners: Listener[] = [];

  get shown(): Readonly<Shown> {
    return this.now;
  }

  set(changes: Partial<Shown>): void {
    const before = this.now;
    this.now = { ...before, ...changes };
    for (const listener of this.listeners) listener(this.now, before);
  }

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }
}
