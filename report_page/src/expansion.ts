// Which scopes are open. Never so many that drawing them would take long.

import type { View } from "./data";
import type { Tree } from "./tree";

/** The most items that are drawn: what was opened first is closed again. */
export const MOST_DRAWN = 800;

export class Expansion {
  // In the order of opening.
  private readonly open = new Set<number>();
  private readonly listeners: ((changed: number) => void)[] = [];

  constructor(
    private readonly tree: Tree,
    view: View,
  ) {
    this.open.add(tree.root);
    this.reset(view);
  }

  isOpen(item: number): boolean {
    return this.open.has(item);
  }

  listen(listener: (changed: number) => void): void {
    this.listeners.push(listener);
  }

  /** The items that are drawn: what is in open scopes, these scopes themselves among them. */
  drawn(view: View): number[] {
    const found: number[] = [];
    const visit = (item: number): void => {
      for (const child of this.tree.children(item, view)) {
        found.push(child);
        if (this.open.has(child)) visit(child);
      }
    };
    visit(this.tree.root);
    return found;
  }

  toggle(item: number, view: View): void {
    if (this.open.has(item)) this.close(item);
    else this.openScopes([item], view);
  }

  close(item: number): void {
    this.open.delete(item);
    this.tell(item);
  }

  /** Opens all that an item is in. */
  reveal(item: number, view: View): void {
    const above = this.tree.pathTo(item).slice(0, -1);
    if (above.every((scope) => this.open.has(scope))) return;
    for (const scope of above) this.openOne(scope, view);
    this.closeOthers(new Set(above), view);
    this.tell(item);
  }

  /** Opens scopes, and what alone is in them, as many as can be drawn; returns how many. */
  openScopes(scopes: readonly number[], view: View): number {
    const wanted = new Set(scopes.flatMap((scope) => this.tree.pathTo(scope)));
    let opened = 0;
    for (const scope of scopes) {
      if (!this.open.has(scope)) {
        this.openOne(scope, view);
        if (!this.closeOthers(wanted, view) && opened > 0) {
          this.open.delete(scope);
          break;
        }
      }
      opened++;
    }
    this.tell(scopes[0] ?? -1);
    return opened;
  }

  /** As at first: the scope that matters is open, and what it is in. */
  reset(view: View): void {
    this.open.clear();
    this.open.add(this.tree.root);
    for (const scope of this.tree.pathTo(this.tree.mainScope(view))) this.openOne(scope, view);
    this.tell(-1);
  }

  private openOne(item: number, view: View): void {
    this.open.delete(item);
    this.open.add(item);
    const children = this.tree.children(item, view);
    const only = children[0];
    if (children.length === 1 && only !== undefined && this.tree.isScope(only)) {
      this.openOne(only, view);
    }
  }

  /** Closes what was opened first, until what is left can be drawn; returns whether it can. */
  private closeOthers(wanted: ReadonlySet<number>, view: View): boolean {
    let drawn = this.drawn(view).length;
    for (const item of [...this.open]) {
      if (drawn <= MOST_DRAWN) return true;
      if (item === this.tree.root || wanted.has(item)) continue;
      this.open.delete(item);
      drawn = this.drawn(view).length;
    }
    return drawn <= MOST_DRAWN;
  }

  private tell(changed: number): void {
    for (const listener of this.listeners) listener(changed);
  }
}
