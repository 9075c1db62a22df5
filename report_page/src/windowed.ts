// A long list of which only the rows in sight are elements.

import { make } from "./dom";

const MARGIN = 8;

export interface WindowedRows {
  /** How many rows there are. */
  count(): number;
  /** The row, by its number. */
  render(row: number): HTMLElement;
}

export class Windowed {
  readonly element: HTMLElement;
  private readonly inner: HTMLElement;
  private first = -1;
  private last = -1;

  /**
   * @param element what scrolls; the rows get into an element in it.
   * @param height of a row, as the style sheet has it.
   */
  constructor(
    element: HTMLElement,
    private readonly rows: WindowedRows,
    private readonly height: number,
  ) {
    this.element = element;
    this.inner = make("div", { class: "windowed", role: "presentation" });
    element.append(this.inner);
    element.addEventListener("scroll", () => this.update(false));
    // Later, because what is made in between might change sizes that are being told of.
    new ResizeObserver(() => requestAnimationFrame(() => this.update(false))).observe(element);
  }

  /** Makes the rows in sight anew. */
  refresh(): void {
    this.inner.style.height = `${this.rows.count() * this.height}px`;
    this.update(true);
  }

  /** Scrolls until a row is in sight. */
  show(row: number): void {
    const top = row * this.height;
    const room = this.element.clientHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + this.height > this.element.scrollTop + room) {
      this.element.scrollTop = top + this.height - room;
    }
    this.update(false);
  }

  /** How many rows are in sight at once. */
  page(): number {
    return Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
  }

  private update(always: boolean): void {
    const count = this.rows.count();
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / this.height) - MARGIN);
    const bottom = top + this.element.clientHeight;
    const last = Math.min(count, Math.ceil(bottom / this.height) + MARGIN);
    if (!always && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const made: HTMLElement[] = [];
    for (let row = first; row < last; row++) {
      const element = this.rows.render(row);
      element.style.top = `${row * this.height}px`;
      made.push(element);
    }
    this.inner.replaceChildren(...made);
  }
}
