"""Controls the page of a report in a browser, and reads what it shows."""

from __future__ import annotations

import re


def search(page, text):
    page.locator("#search").fill(text)
    return page.locator(".found .count").inner_text()


def go_to(page, name):
    """Shows the node with exactly this name."""
    search(page, f"/^{re.escape(name)}$/")
    page.locator("#search").press("Enter")
    page.wait_for_function(
        "name => document.querySelector('.details h2 .name')?.textContent === name", arg=name
    )


def drawn(page, selector="node"):
    """The drawn elements: the text of each node, or the ids of lines."""
    return page.evaluate(
        """selector => document.querySelector('#canvas')._cyreg.cy.elements(selector)
        .map(each => each.isNode() ? each.data('label') : each.id())""",
        selector,
    )


def at(page, label):
    """Where a drawn node is on the screen, by a part of its text."""
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
