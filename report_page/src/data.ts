// What report_data.py writes: columns of numbers, in which a node is a row.

import { functionNames, shortNames } from "./names";

export const NOT_FLOAT = 0;
export const LOWERED = 1;
export const KEPT = 2;
export const RAISED = 3;
export const CAST = 4;
export const ADDED = 5;

export const CONTROL = -1;
export const NONE = -1;

export type View = "before" | "after";
const BITS: Record<View, number> = { before: 1, after: 2 };

/** A type attribute, and its dtype before and after. */
export type Dtype = readonly [attribute: string, before: string, after: string];

/** The ends of what is known of a node's values, and each as text. */
export type Range = readonly [
  low: number | null,
  high: number | null,
  lowText: number,
  highText: number,
];

/** Of a report, a Cast that was inserted. */
export interface CastRow {
  node: number;
  of: number;
  port: number;
  tensor: string;
  from: string;
  to: string;
  bytes: number | null;
  read_by: number;
}

export interface OpRow {
  op: string;
  nodes: number;
  lowered: number;
  raised: number;
  kept: number;
  lists: Record<string, number>;
  reasons: Record<string, number>;
}

export interface CurvePoint {
  share: number;
  error: number | null;
  label: string;
  good: boolean;
  chosen: boolean;
}

/** A precision whose step was measured; times are multiples of float32's. */
export interface TimedPoint {
  label: string;
  ratio: number;
  quartiles: readonly [low: number, high: number];
  worse: number;
  good: boolean;
  front: boolean;
  chosen: boolean;
}

export interface Times {
  /** What `worse` is. */
  measure: string;
  points: TimedPoint[];
}

export interface Totals {
  float_nodes: number;
  lowered: number;
  raised: number;
  kept: number;
}

/** By row; the keys are numbers, as text. */
type Some<T> = Readonly<Record<string, T>>;

export interface Stored {
  schema: string;
  version: string;
  /** The model's name, or that of the graph that ran. */
  title: string;
  model: string;
  kind: string;
  signature: string;
  options: Record<string, unknown>;
  totals: Totals;
  /** The totals in words. */
  counts: string;
  warnings: string[];
  mappings: { place: string; entry: string; ops: string[] }[];
  by_op: OpRow[];
  graphs: string[];
  decisions: string[];
  sentences: Record<string, string>;
  strings: string[];
  dtypes: Dtype[][];
  /** Sets of attributes besides dtypes, as name and value. */
  attributes: (readonly [name: string, value: string])[][];
  nodes: {
    name: string[];
    graph: number[];
    views: number[];
    op: number[];
    decision: number[];
    list: number[];
    listed_by: number[];
    reason: number[];
    cause: number[];
    follows: number[];
    dtypes: number[];
    device: number[];
    inputs: number[][];
  };
  some: {
    advice: Some<[key: number, node: number, effect: number][]>;
    attributes: Some<number>;
    calls: Some<number[]>;
    cause_elsewhere: Some<string>;
    /** The error that enters at a node, as a share of float32's values; null is infinite. */
    entered: Some<number | null>;
    escaped: Some<string>;
    followers: Some<number>;
    inputs_after: Some<number[]>;
    no_vote: Some<[input: number, why: number][]>;
    op_after: Some<number>;
    range: Some<Range>;
    remark: Some<number>;
    rewrites: Some<string[]>;
    shapes: Some<number>;
    values: Some<number>;
    why_listed: Some<number>;
  };
  casts: CastRow[];
  curve: CurvePoint[];
  times: Times | null;
}

/** One input of a node. */
export interface Input {
  node: number;
  /** The number of the output that is read, or CONTROL. */
  port: number;
}

export class Report {
  readonly size: number;
  /** By the row of each Cast. */
  readonly castAt = new Map<number, CastRow>();
  /** The names of functions, without what TensorFlow adds to them. */
  readonly graphNames: readonly string[];
  private readonly shorts: readonly string[];
  private readers: Record<View, number[][] | null> = { before: null, after: null };

  constructor(readonly stored: Stored) {
    this.size = stored.nodes.name.length;
    this.graphNames = functionNames(stored.graphs);
    this.shorts = shortNames(stored.nodes.name, stored.nodes.graph);
    for (const cast of stored.casts) this.castAt.set(cast.node, cast);
  }

  /** Whether the model was compared with float32. */
  get isCompared(): boolean {
    return Object.keys(this.stored.some.entered).length > 0;
  }

  isMeasured(node: number): boolean {
    return String(node) in this.stored.some.entered;
  }

  /** The error that enters at a node; 0 where none does. */
  entered(node: number): number {
    const error = this.stored.some.entered[node];
    return error === null ? Infinity : (error ?? 0);
  }

  name(node: number): string {
    return this.stored.nodes.name[node] ?? "";
  }

  /** The name without the calls that it came through, where that is clear enough. */
  short(node: number): string {
    return this.shorts[node] ?? "";
  }

  /** What a Cast casts, with a short name if its node is there. */
  tensorOf(cast: CastRow): string {
    return cast.of < 0 ? cast.tensor : `${this.short(cast.of)}:${cast.port}`;
  }

  graph(node: number): number {
    return this.stored.nodes.graph[node] ?? 0;
  }

  /** The name of the function that a node is in; "" for none. */
  functionOf(node: number): string {
    return this.stored.graphs[this.graph(node)] ?? "";
  }

  /** The same without what TensorFlow adds to it. */
  shortFunctionOf(node: number): string {
    return this.graphNames[this.graph(node)] ?? "";
  }

  /** Its attributes besides dtypes: strides, padding, shapes. */
  attributes(node: number): (readonly [name: string, value: string])[] {
    return this.stored.attributes[this.stored.some.attributes[node] ?? NONE] ?? [];
  }

  decision(node: number): number {
    return this.stored.nodes.decision[node] ?? NOT_FLOAT;
  }

  decisionName(node: number): string {
    return this.stored.decisions[this.decision(node)] ?? "";
  }

  /** Whether the ledger has it: the optimizer decided about it. */
  isFloat(node: number): boolean {
    const decision = this.decision(node);
    return decision === LOWERED || decision === KEPT || decision === RAISED;
  }

  /** Whether it computes nothing: a constant, a variable, its read, or an argument. */
  isSource(node: number): boolean {
    return this.reason(node) === "neutral_source";
  }

  op(node: number, view: View): string {
    const after = view === "after" ? this.stored.some.op_after[node] : undefined;
    return this.text(after ?? this.stored.nodes.op[node]);
  }

  list(node: number): string {
    return this.text(this.stored.nodes.list[node]);
  }

  listedBy(node: number): string {
    return this.text(this.stored.nodes.listed_by[node]);
  }

  reason(node: number): string {
    return this.text(this.stored.nodes.reason[node]);
  }

  cause(node: number): number {
    return this.stored.nodes.cause[node] ?? NONE;
  }

  follows(node: number): number {
    return this.stored.nodes.follows[node] ?? NONE;
  }

  device(node: number): string {
    return this.text(this.stored.nodes.device[node]);
  }

  range(node: number): Range | undefined {
    return this.stored.some.range[node];
  }

  /** The shapes of its outputs; "" if nothing is known. */
  shapes(node: number): string {
    return this.text(this.stored.some.shapes[node]);
  }

  /** What its values are, in words; "" if nothing is known. */
  values(node: number): string {
    return this.text(this.stored.some.values[node]);
  }

  dtypes(node: number): Dtype[] {
    return this.stored.dtypes[this.stored.nodes.dtypes[node] ?? 0] ?? [];
  }

  isIn(node: number, view: View): boolean {
    return ((this.stored.nodes.views[node] ?? 0) & BITS[view]) !== 0;
  }

  /** Rows and outputs, one after the other. */
  flatInputs(node: number, view: View): readonly number[] {
    const after = view === "after" ? this.stored.some.inputs_after[node] : undefined;
    return after ?? this.stored.nodes.inputs[node] ?? [];
  }

  inputs(node: number, view: View): Input[] {
    const flat = this.flatInputs(node, view);
    const inputs: Input[] = [];
    for (let at = 0; at + 1 < flat.length; at += 2) {
      inputs.push({ node: flat[at] ?? NONE, port: flat[at + 1] ?? CONTROL });
    }
    return inputs;
  }

  /** The nodes that read a node, each once, those that only wait for it too. */
  readersOf(node: number, view: View): readonly number[] {
    let readers = this.readers[view];
    if (readers === null) {
      readers = Array.from({ length: this.size }, () => []);
      for (let reader = 0; reader < this.size; reader++) {
        if (!this.isIn(reader, view)) continue;
        const flat = this.flatInputs(reader, view);
        for (let at = 0; at < flat.length; at += 2) {
          const list = readers[flat[at] ?? NONE];
          if (list !== undefined && list[list.length - 1] !== reader) list.push(reader);
        }
      }
      this.readers[view] = readers;
    }
    return readers[node] ?? [];
  }

  text(number: number | undefined): string {
    return this.stored.strings[number ?? NONE] ?? "";
  }
}

/** What Python put into the page. */
export function readData(): unknown {
  const text = document.getElementById("report-data")?.textContent;
  if (!text) throw new Error("this page has no data in it");
  return JSON.parse(text);
}
