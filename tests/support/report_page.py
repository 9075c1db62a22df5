"""Controls the page of a report in a browser, and reads what it shows."""

from __future__ import annotations

import re


def search(page, text):
    page.locator("#search").fill(text)
    return page.locator(".found .count").inner_text()


def go_to(page, name):
    """Shows the node with exactly this name, or this short name."""
    search(page, f"/^{re.escape(name)}$/")
    page.locator("#search").press("Enter")
    page.wait_for_function(
        """name => {
          const shown = document.querySelector('.details h2 .name');
          return shown?.textContent === name || shown?.title === name;
        }""",
        arg=name,
    )


def drawn(page, selector="node"):
    """The drawn elements: the text of each node, or the ids of lines."""
    return page.evaluate(
        """selector => document.querySelector('#canvas')._cyreg.cy.elements(selector)
        .map(each => each.isNode() ? each.data('label') : each.id())""",
        selector,
    )


def crossings(page):
    """The lines that cross a box that they neither leave nor enter, as texts."""
    return page.evaluate(
        """() => {
          const cy = document.querySelector('#canvas')._cyreg.cy;
          const boxOf = node => {
            const {x, y} = node.position();
            const half = [node.data('width') / 2 - 1, node.data('height') / 2 - 1];
            return {node, from: [x - half[0], y - half[1]], to: [x + half[0], y + half[1]]};
          };
          const boxes = cy.nodes('[!depth]').map(boxOf);
          // What is left of a straight line after it is cut off at each side of the box.
          const meets = ([start, end], {from, to}) => {
            let [first, last] = [0, 1];
            for (const axis of [0, 1]) {
              const along = end[axis] - start[axis];
              const sides = [from[axis] - start[axis], to[axis] - start[axis]];
              if (along === 0) {
                if (sides[0] > 0 || sides[1] < 0) return false;
                continue;
              }
              const [near, far] = sides.map(side => side / along).sort((one, two) => one - two);
              [first, last] = [Math.max(first, near), Math.min(last, far)];
            }
            return first < last;
          };
          const found = [];
          for (const edge of cy.edges()) {
            const bends = edge.segmentPoints() ?? [];
            const points = [edge.sourceEndpoint(), ...bends, edge.targetEndpoint()];
            const pairs = points.slice(1).map((point, at) =>
              [points[at], point].map(({x, y}) => [x, y]));
            for (const box of boxes) {
              if (edge.source().same(box.node) || edge.target().same(box.node)) continue;
              if (pairs.some(pair => meets(pair, box))) {
                const ends = [edge.source(), edge.target(), box.node];
                found.push(ends.map(node => node.data('label')).join(', '));
              }
            }
          }
          return found;
        }"""
    )


def at(page, label):
    """The position on the screen of a drawn node, which is found by a part of its text."""
    return page.evaluate(
        """label => {
          const cy = document.querySelector('#canvas')._cyreg.cy;
          const box = document.querySelector('#canvas').getBoundingClientRect();
          const node = cy.nodes().filter(each => each.data('label').includes(label))[0];
          const {x, y} = node.renderedPosition();
          return [box.x + x, box.y + y];
        }""",
        label,
    )


def selected(page):
    return page.locator(".details h2 .name").inner_text()


def cells(page, column):
    return page.locator(f".table:visible .body .row > :nth-child({column})").all_inner_texts()
