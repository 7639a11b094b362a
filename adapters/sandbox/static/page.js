// Puts the page together: the platforms' columns, the agent's, and the connection's state.

import { drawAgent } from "./agent.js";
import { el } from "./dom.js";
import { listen } from "./live.js";
import { PlatformColumn } from "./platform.js";

const STATES = { live: "Live", lost: "Reconnecting…" };
const columns = new Map();
const place = document.getElementById("platforms");
const agent = document.getElementById("agent");

function takeFrame(frame, whole) {
  for (const each of frame.platforms) {
    if (!columns.has(each.name)) addColumn(new PlatformColumn(each.name, each.title));
    columns.get(each.name).take(each, whole);
  }
  if (frame.agent) drawAgent(frame.agent);
}

// Those that stand there already are left alone: what is put in its place again is scrolled to its beginning.
function addColumn(column) {
  if (!columns.size) place.replaceChildren();
  columns.set(column.name, column);
  place.append(column.node);
  drawTabs();
}

// On a phone the panes stand under each other; these lead from one to the next.
function drawTabs() {
  const panes = [...columns.values()].map(({ name, title, node }) => ({ name, title, node }));
  const tabs = [...panes, { name: "agent", title: "Agent", node: agent }].map(({ name, title, node }) => {
    const tab = el("button", { type: "button", "data-testid": `tab-${name}` }, title);
    tab.addEventListener("click", () => node.scrollIntoView({ block: "start" }));
    return { tab, node };
  });
  document.getElementById("tabs").replaceChildren(...tabs.map(({ tab }) => tab));
  const main = document.querySelector("main");
  const mark = () => {
    const area = main.getBoundingClientRect();
    const shown = tabs.map(({ node }) => {
      const box = node.getBoundingClientRect();
      return Math.min(box.bottom, area.bottom) - Math.max(box.top, area.top);
    });
    const most = shown.indexOf(Math.max(...shown));
    for (const [place, { tab }] of tabs.entries()) {
      if (place === most) tab.setAttribute("aria-current", "true");
      else tab.removeAttribute("aria-current");
    }
  };
  main.onscroll = window.onresize = mark;
  mark();
}

function setState(state) {
  const node = document.querySelector("[data-testid=connection]");
  node.dataset.state = state;
  node.textContent = STATES[state];
  document.querySelector("[data-testid=banner]").hidden = state === "live";
  document.body.classList.toggle("lost", state !== "live");
  for (const column of columns.values()) column.connect(state === "live");
}

const toggle = document.querySelector("[data-testid=agent-toggle]");
function openAsks(open) {
  toggle.setAttribute("aria-expanded", String(open));
  agent.classList.toggle("open", open);
}
toggle.addEventListener("click", () => openAsks(toggle.getAttribute("aria-expanded") !== "true"));
agent.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && toggle.getAttribute("aria-expanded") === "true") {
    openAsks(false);
    toggle.focus();
  }
});
document.addEventListener("pointerdown", (event) => {
  if (!agent.contains(event.target)) openAsks(false);
});

document.addEventListener("visibilitychange", () => {
  for (const column of columns.values()) column.draw();
});

listen(takeFrame, setState);
