// What sections.py writes: charts, heat maps and tables, in sections.

export interface Series {
  name: string;
  x: readonly number[];
  /** null is not finite, and a gap. */
  y: readonly (number | null)[];
}

export interface Lines {
  heading: string;
  /** The name of the horizontal axis. */
  x: string;
  series: readonly Series[];
  /** Where something happened, and whether it went well. */
  marks: readonly { x: number; text: string; good?: boolean }[];
  logarithmic: boolean;
}

export interface Layer {
  name: string;
  unit: string;
  /** Of each row, a number per column. */
  values: readonly (readonly (number | null)[])[];
  /** The value that is not shaded, and that which is shaded fully. */
  ends: readonly [number, number];
}

export interface Heat {
  heading: string;
  columns: readonly number[];
  rows: readonly string[];
  layers: readonly Layer[];
  /** Of each row, the share of NaNs per column; empty if nothing is known. */
  nans: readonly (readonly (number | null)[])[];
}

export interface TableData {
  headings: readonly string[];
  rows: readonly (readonly string[])[];
  numbers_from: number;
  /** How many rows there are in all. */
  of: number;
}

export interface Section {
  heading: string;
  notes: readonly string[];
  /** A text to copy; "" for none. */
  code: string;
  charts: readonly Lines[];
  heat: Heat | null;
  table: TableData | null;
}

export interface Sections {
  schema: string;
  version: string;
  kind: string;
  title: string;
  findings: readonly string[];
  sections: readonly Section[];
}
