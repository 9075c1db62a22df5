// Short names: without the calls that TensorFlow writes before the names of what it inlines.

/** A part of a name that says through which call a node came. */
const CALL = /^(Func|(Stateful|TPU)?PartitionedCall(_\d+)?)$/;
/** A function's name, as TensorFlow writes it when it traces one. */
const TRACED = /^__(?:inference|forward|backward)_(.+?)_\d+(?:_\d+)*$/;

/** "train_function" of "__inference_train_function_754". */
export function functionName(name: string): string {
  return TRACED.exec(name)?.[1] ?? name;
}

function withoutCalls(name: string): string {
  const parts = name.split("/");
  const last = parts.length - 1;
  const kept = parts.filter((part, at) => at === last || !(CALL.test(part) || TRACED.test(part)));
  return kept.join("/");
}

/** The short form of each name; the name itself where another of its group has that form too. */
function unambiguous(
  names: readonly string[],
  short: (name: string) => string,
  group: (at: number) => number,
): string[] {
  const forms = names.map(short);
  const taken = new Map<string, number>();
  const key = (at: number, form: string): string => `${group(at)}:${form}`;
  forms.forEach((form, at) => {
    taken.set(key(at, form), (taken.get(key(at, form)) ?? 0) + 1);
  });
  return names.map((name, at) => {
    const form = forms[at] as string;
    return taken.get(key(at, form)) === 1 ? form : name;
  });
}

/** The short names of nodes, given their graphs: no two nodes of a graph have the same. */
export function shortNames(names: readonly string[], graphs: readonly number[]): string[] {
  return unambiguous(names, withoutCalls, (at) => graphs[at] ?? 0);
}

export function functionNames(names: readonly string[]): string[] {
  return unambiguous(names, functionName, () => 0);
}
