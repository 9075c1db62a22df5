"""Fills a corpus: graphs of the benchmarks and of tests, and random ones, in every mode.

    python -m replay.make_corpus CORPUS GRAPHS RECORDED... [--quick]

GRAPHS is the folder that caches the frozen graphs of the benchmarks, which take a minute or two to
make. RECORDED are folders of record_rewrites.py. This script uses the working tree's package.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import pathlib
import random
from collections.abc import Iterable
from typing import Any

import inference_graphs
import training_graphs
from support.random_graphs import random_graph

import npu_precision
from replay.corpus import Case, Corpus
from replay.record_rewrites import rewriting_input
from replay.variants import Variant, variants, variants_of_turn

RANDOM_GRAPHS = 500
RANDOM_SIZES = range(5, 200)
MODES_PER_RANDOM_GRAPH = 4
# Larger graphs of tests are only rewritten as in the test, not in every mode.
LARGEST = 1 << 20


def add_cases(corpus: Corpus, name: str, digest: str, given: Iterable[Variant]) -> None:
    """Adds a case for each variant."""
    for options, devices in given:
        corpus.add_case(Case(name, digest, "graph", options, devices))


def add_graph(corpus: Corpus, graph_def: Any, fetches: Any, **rewriting: Any) -> str:
    """Adds a graph as the package passes it to TensorFlow; returns the digest."""
    return corpus.add_graph(
        rewriting_input(lambda: npu_precision.rewrite_graph_def(graph_def, fetches, **rewriting))
    )


def add_recorded(corpus: Corpus, folders: Iterable[pathlib.Path]) -> None:
    """Adds the rewrites of tests, and each of their graphs in every mode."""
    found: list[tuple[Case, Corpus]] = []
    for folder in folders:
        recorded = Corpus(folder)
        corpus.add_files(recorded)
        found += [(case, recorded) for case in recorded.cases()]
    # Sorted, so that the same tests make the same corpus, whichever process ran each.
    found.sort(key=lambda each: json.dumps(dataclasses.asdict(each[0]), sort_keys=True))
    names: dict[str, str] = {}
    for case, recorded in found:
        meta_graph = recorded.graph_path(case.graph).read_bytes()
        corpus.add_graph(meta_graph)
        corpus.add_case(case)
        if len(meta_graph) <= LARGEST:
            names.setdefault(case.graph, case.name)
    for number, (digest, name) in enumerate(names.items()):
        add_cases(corpus, name, digest, variants_of_turn(number))


def add_benchmarks(corpus: Corpus, frozen_graphs: pathlib.Path) -> None:
    """Adds the graphs that `make bench` measures."""
    for name in training_graphs.NAMES:
        training = training_graphs.training_graph(name)
        fetches = [training.step, training.loss, training.init]
        digest = add_graph(corpus, training.graph.as_graph_def(), fetches)
        add_cases(corpus, f"training {name}", digest, variants())
    for number, name in enumerate(inference_graphs.NAMES):
        reason = inference_graphs.obstacle(name, frozen_graphs)
        if reason is not None:
            print(f"left out: {name}: {reason}")
            continue
        frozen = inference_graphs.frozen_graph(name, frozen_graphs)
        digest = add_graph(corpus, frozen.graph_def(), frozen.fetch)
        for turn in (number, number + len(inference_graphs.NAMES)):
            add_cases(corpus, f"inference {name}", digest, variants_of_turn(turn))


def add_random(corpus: Corpus) -> None:
    """Adds random graphs with control flow, each in some modes, so that all modes are used."""
    turns = itertools.cycle(variants())
    for seed in range(RANDOM_GRAPHS):
        chooser = random.Random(seed)
        graph = random_graph(seed, chooser.choice(RANDOM_SIZES), control_flow=True)
        digest = add_graph(
            corpus,
            graph.graph_def,
            graph.fetches,
            feeds=graph.fed_inside,
            keep_io_types=chooser.random() < 0.8,
        )
        for options, devices in itertools.islice(turns, MODES_PER_RANDOM_GRAPH):
            if "mix" in str(options.get("precision_mode")) and chooser.random() < 0.5:
                options = {**options, "mixlist_edits": _edits(graph.graph_def, chooser)}
            add_cases(corpus, f"random {seed}", digest, [(options, devices)])


def _edits(graph_def: Any, chooser: random.Random) -> str:
    """A mixlist of op types and names of the graph."""
    ops = sorted({node.op for node in graph_def.node})
    names = [node.name for node in graph_def.node]
    chooser.shuffle(ops)
    return json.dumps(
        {
            "white-list": {"to-add": [*ops[:3], f"node:{chooser.choice(names)}"]},
            "black-list": {"to-add": [*ops[3:6], f"node:{chooser.choice(names)}_.*"]},
            "gray-list": {"to-add": ops[6:9]},
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("graphs", type=pathlib.Path)
    parser.add_argument("recorded", type=pathlib.Path, nargs="*")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    corpus = Corpus(arguments.corpus)
    add_recorded(corpus, arguments.recorded)
    add_random(corpus)
    if not arguments.quick:
        add_benchmarks(corpus, arguments.graphs)


if __name__ == "__main__":
    main()
