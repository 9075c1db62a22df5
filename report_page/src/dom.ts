// Elements, made without markup: whatever comes from a model is text, and nothing else.

type Attributes = Record<string, string | number | boolean | null | ((event: Event) => void)>;

/** An element; null and false attributes are left out, functions listen to the event so named. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same, of SVG. */
export function makeSvg<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): SVGElementTagNameMap[Tag] {
  const element = document.createElementNS(SVG, tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, String(value));
  }
}

export function button(
  label: string,
  action: () => void,
  attributes: Attributes = {},
): HTMLButtonElement {
  return make("button", { type: "button", click: action, ...attributes }, label);
}

/** Cuts the middle out of what is too long. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Bytes, as the command prints them. */
export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  const units = ["kB", "MB", "GB", "TB"];
  let power = 0;
  let value = bytes / 1000;
  while (value >= 1000 && power + 1 < units.length) {
    value /= 1000;
    power++;
  }
  return `${value.toFixed(1)} ${units[power]}`;
}
