"""What of a page in a browser is hard to read, or has no name for who cannot see it."""

from __future__ import annotations

from playwright.async_api import Page


async def hard_to_read(page: Page) -> list[str]:
    """The texts whose contrast with what is painted behind them is under 4.5 to 1 (WCAG AA), with the contrast."""
    found: list[str] = await page.evaluate(CONTRAST)
    return found


async def without_name(page: Page) -> list[str]:
    """The controls that a screen reader would not name."""
    found: list[str] = await page.evaluate(UNNAMED)
    return found


UNNAMED = """
() => [...document.querySelectorAll("button, select, textarea, input")]
  .filter((node) => !node.textContent.trim() && !node.ariaLabel && !node.labels?.length)
  .map((node) => node.outerHTML)
"""

CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = ([r, g, b]) =>
    [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const poor = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !node.checkVisibility() || node.closest(":disabled, script, option")) continue;
    const under = behind(node);
    const [a, b] = [light(over(rgba(getComputedStyle(node).color), under)), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${walk.currentNode.data.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return poor;
}
"""
