"""One node's story: why it has its precision, step by step."""

from __future__ import annotations

import dataclasses
import json
import re

from npu_precision import _errors
from npu_precision.explain import reasons
from npu_precision.explain.attribute_texts import shape_text
from npu_precision.explain.explanation import Body, Explanation
from npu_precision.ledger import LedgerCast, LedgerNode
from npu_precision.offline.tensor_names import flat_tensor
from npu_precision.options import PrecisionOptions

# Reasons that keep a node because of its list, or because it has none.
_ON_A_LIST = reasons.of_kind("list") - {"white_list"}
# The reasons of nodes that do not vote, and why they do not.
_DOES_NOT_VOTE = {
    "neutral_source": "it is a source",
    "gray_no_votes": "nothing that feeds it votes",
    "gray_follows_consumers": "nothing that feeds it votes",
}
_VOTE_IS_NOT_HEARD = "the dtype of this input stays"


@dataclasses.dataclass(frozen=True)
class Step:
    """One link of the chain of causes from a node to the one that decided in the end.

    Attributes:
        node: the node's name.
        op: its op type.
        decision: "lowered", "raised" or "kept".
        why: the reason, in words.
    """

    node: str
    op: str
    decision: str
    why: str


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """A float producer of a node's input.

    Attributes:
        tensor: the tensor that is read, as "conv1:0".
        op: the op type of its producer.
        decision: "lowered", "raised" or "kept".
        no_vote: why its decision is no vote on the node, in words; "" if it is one, or if the node
            was not decided by votes.
    """

    tensor: str
    op: str
    decision: str
    no_vote: str = ""


@dataclasses.dataclass(frozen=True)
class Advice:
    """An entry of a mixlist, and its effect on a node.

    Attributes:
        key: the list that it adds to, as "gray-list".
        node: the name of the node that it adds to the list.
        effect: the effect, in words about {node}.
    """

    key: str
    node: str
    effect: str

    def mixlist(self) -> str:
        """The mixlist, as JSON."""
        return json.dumps({self.key: {"to-add": [f"node:{re.escape(self.node)}"]}})


@dataclasses.dataclass(frozen=True)
class Story:
    """One node's story.

    Attributes:
        body: the function it is in, or "".
        node: the node.
        values: the range of its values for all inputs, as "between 0 and 1"; "" if nothing is
            known.
        shapes: the shapes of its outputs, as "[?, 8]"; "" if nothing is known.
        remark: a fact about its kernel that its reason does not contain; mostly "".
        steps: the chain of causes: first the node itself, last the one that decided in the end.
        fed_by: the float producers of its inputs.
        casts: the Casts among its producers and consumers.
        followers: how many gray nodes are kept because it is kept.
        advice: mixlists that would change it, each with its effect.
    """

    body: str
    node: LedgerNode
    values: str
    shapes: str
    remark: str
    steps: tuple[Step, ...]
    fed_by: tuple[Neighbour, ...]
    casts: tuple[LedgerCast, ...]
    followers: int
    advice: tuple[tuple[str, str], ...]


def stories(explanation: Explanation, pattern: str) -> list[Story]:
    """The stories of the float nodes whose names a regular expression matches somewhere.

    Raises:
        ValueError: the pattern is no regular expression, or matches no name.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"node: {pattern!r} is not a regular expression: {error}") from error
    followers = {
        (blocker.body, blocker.node.name): len(blocker.followers)
        for blocker in explanation.blockers()
    }
    with_advice = uses_lists(explanation.options)
    found = [
        _story(body, node, followers.get((body.name, node.name), 0), with_advice)
        for body, node in explanation.nodes()
        if wanted.search(node.name)
    ]
    if not found:
        raise ValueError(_nothing_found(explanation, wanted))
    return found


def _nothing_found(explanation: Explanation, wanted: re.Pattern[str]) -> str:
    others = [
        f"{name} ({definition.op})"
        for body in explanation.bodies
        for name, definition in body.definitions.items()
        if wanted.search(name)
    ]
    message = f"node: {wanted.pattern!r} is found in the name of no float node"
    if others:
        return f"{message}; it is in those of {', '.join(others[:3])}"
    return message + _errors.did_you_mean(wanted.pattern, _name_parts(explanation, wanted.pattern))


def _name_parts(explanation: Explanation, pattern: str) -> set[str]:
    """The parts of float nodes' names between slashes, with as many steps as the pattern."""
    length = pattern.count("/") + 1
    steps = [node.name.split("/") for _, node in explanation.nodes()]
    return {
        "/".join(each[start : start + length])
        for each in steps
        for start in range(len(each) - length + 1)
    }


def uses_lists(options: PrecisionOptions) -> bool:
    """Whether the mode uses the lists that a mixlist edits."""
    try:
        dataclasses.replace(options, mixlist_edits="{}")
    except ValueError:
        return False
    return True


def _story(body: Body, node: LedgerNode, followers: int, with_advice: bool) -> Story:
    chain = body.chain(node.name)
    return Story(
        body.name,
        node,
        values(node),
        shapes(node),
        remark(node),
        tuple(Step(each.name, each.op, each.decision, _sentence(each)) for each in chain),
        neighbours(body, node),
        body.casts_at(node.name),
        followers,
        tuple(
            (each.mixlist(), each.effect.format(node=each.node))
            for each in (advice(node, chain[-1]) if with_advice else ())
        ),
    )


def neighbours(body: Body, node: LedgerNode) -> tuple[Neighbour, ...]:
    """The float producers of a node's inputs, each tensor once."""
    definition = body.definitions.get(node.name)
    inputs = [
        flat_tensor(name, body.definitions)
        for name in (definition.input if definition else ())
        if not name.startswith("^")
    ]
    found = []
    for source, tensor in dict.fromkeys(inputs):
        if source in body.nodes:
            producer = body.nodes[source]
            no_vote = _no_vote(body, node, producer)
            found.append(Neighbour(tensor, producer.op, producer.decision, no_vote))
    return tuple(found)


def _no_vote(body: Body, node: LedgerNode, producer: LedgerNode) -> str:
    """Why a producer has no vote on a node; "" if it has one, or if votes do not matter."""
    if node.reason not in reasons.OF_VOTES or producer.name == node.cause:
        return ""
    shared = body.shares_dtype_of(producer)
    if shared.reason in _DOES_NOT_VOTE:
        return _DOES_NOT_VOTE[shared.reason]
    # These reasons say that all votes on the node agree.
    is_without_votes = node.reason in ("gray_no_votes", "gray_follows_consumers")
    is_lowered = node.reason in ("gray_follows_lowered", "small_operand")
    is_kept = is_lowered and producer.decision == "kept"
    return _VOTE_IS_NOT_HEARD if is_without_votes or is_kept else ""


def values(node: LedgerNode) -> str:
    """The range of a node's output values for all inputs, in words; "" if nothing is known."""
    low, high = node.range or (None, None)
    if low is None:
        return "" if high is None else f"at most {shown_number(high)}"
    if high is None:
        return f"at least {shown_number(low)}"
    if low == high:
        return shown_number(low)
    return f"between {shown_number(low)} and {shown_number(high)}"


def shapes(node: LedgerNode) -> str:
    """The shapes of a node's outputs, as "[?, 8], []"; "" if nothing is known about any."""
    if all(shape is None for shape in node.shapes):
        return ""
    return ", ".join(map(shape_text, node.shapes))


def shown_number(value: float) -> str:
    """A number in as few digits as distinguish it from other float32 numbers."""
    text = ""
    for digits in range(6, 18):
        text = f"{value + 0.0:.{digits}g}"
        # Half of the distance of two neighbours in float32.
        if abs(float(text) - value) <= 3e-8 * abs(value):
            break
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].replace("+", ""), text)


def remark(node: LedgerNode) -> str:
    """A fact about a node's kernel that its reason does not contain; "" if there is none."""
    if node.lacks_kernel:
        return "the target has no float32 kernel for it"
    lowered_to = {after for before, after in node.dtypes.values() if before != after}
    if node.computes_in in ("", *lowered_to):
        return ""
    return f"it computes in {node.computes_in}, on values rounded to {', '.join(lowered_to)}"


def _sentence(node: LedgerNode) -> str:
    sentence = reasons.SENTENCES[node.reason].format(cause=node.cause, by=node.listed_by)
    return f"{sentence}: {node.why_listed}" if node.why_listed else sentence


def advice(node: LedgerNode, last: LedgerNode) -> list[Advice]:
    """The entries of a mixlist that would change a node.

    Args:
        node: the node.
        last: the last node of its chain of causes, which may be the node itself.
    """
    if node.reason == "customized":  # The user must change that line, which may override an entry.
        return []
    # TensorFlow's op has no kernel of another dtype; the user must change the entry.
    if node.op.startswith("_") or (
        node.decision == "kept" and last.reason in _ON_A_LIST and last.is_of_a_file
    ):
        return []
    if node.list == "unlisted" and node.reason not in _ON_A_LIST:
        return []
    if node.decision == "lowered":
        return [Advice("black-list", node.name, "keeps it in float32")]
    found = []
    follows = node.name != last.name
    if node.reason in _ON_A_LIST or (follows and last.reason in _ON_A_LIST):
        found.append(Advice("gray-list", last.name, "lets {node} follow what feeds it"))
    if (not follows and node.reason in _ON_A_LIST) or node.reason.startswith("gray_"):
        found.append(Advice("white-list", node.name, "lowers it"))
    if node.reason in reasons.OF_KEEP_RULES:
        found.append(Advice("white-list", node.name, "lowers it in spite of that"))
    return found
