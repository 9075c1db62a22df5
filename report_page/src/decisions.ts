// How a decision looks: never by colour alone, but by a letter and a shape too.

import { ADDED, CAST, KEPT, LOWERED, NOT_FLOAT, RAISED } from "./data";

export interface Look {
  /** Of the CSS variables --NAME-fill and --NAME-line. */
  style: string;
  letter: string;
  /** Of cytoscape's shapes. */
  shape: "round-rectangle" | "rectangle" | "cut-rectangle" | "ellipse" | "tag" | "round-tag";
  meaning: string;
}

const LOOKS: Record<number, Look> = {
  [LOWERED]: {
    style: "lowered",
    letter: "L",
    shape: "round-rectangle",
    meaning: "lowered: computes in the low type",
  },
  [KEPT]: { style: "kept", letter: "K", shape: "rectangle", meaning: "kept: dtypes stay" },
  [RAISED]: {
    style: "raised",
    letter: "R",
    shape: "cut-rectangle",
    meaning: "raised: computes in float32",
  },
  [NOT_FLOAT]: {
    style: "other",
    letter: "N",
    shape: "ellipse",
    meaning: "not float: nothing to decide",
  },
  [CAST]: { style: "cast", letter: "C", shape: "tag", meaning: "an inserted Cast" },
  [ADDED]: { style: "cast", letter: "+", shape: "round-tag", meaning: "added by the optimizer" },
};

/** In the order in which legends and bars have them. */
export const ORDER = [LOWERED, RAISED, KEPT, NOT_FLOAT, CAST, ADDED];

export function look(decision: number): Look {
  return LOOKS[decision] ?? (LOOKS[NOT_FLOAT] as Look);
}
