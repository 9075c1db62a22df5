// A bar of coloured shares, for those who see it: the numbers stand beside it as text.

import { look } from "./decisions";
import { make } from "./dom";

/** The shares of decisions in a total. */
export function bar(parts: readonly (readonly [number, number])[], total: number): HTMLElement {
  const element = make("span", { class: "bar", "aria-hidden": "true" });
  for (const [decision, number] of parts) {
    if (number === 0) continue;
    const part = make("span", { class: look(decision).style });
    part.style.width = `${(100 * number) / total}%`;
    element.append(part);
  }
  return element;
}
