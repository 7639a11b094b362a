// Puts the page together: who is acting, the platforms' columns, the agent's column, and the connection's state.

import { drawAgent } from "./agent.js";
import { el } from "./dom.js";
import { listen } from "./live.js";
import { PlatformColumn } from "./platform.js";

const STATES = { live: "Live", lost: "Reconnecting…" };
const columns = new Map();
const acting = document.querySelector("[data-testid=acting-as]");
const place = document.getElementById("platforms");

function takeFrame(frame, whole) {
  let fresh = whole;
  for (const each of frame.platforms) {
    if (!columns.has(each.name)) {
      columns.set(each.name, new PlatformColumn(each.name, each.title));
      fresh = true;
    }
    columns.get(each.name).take(each, whole);
  }
  if (fresh) place.replaceChildren(...[...columns.values()].map((column) => column.node));
  drawPeople();
  for (const column of columns.values()) column.actAs(acting.value);
  if (frame.agent) drawAgent(frame.agent);
}

// People are the same person on every platform by their name.
function drawPeople() {
  const names = [...new Set([...columns.values()].flatMap((column) => column.people.map((person) => person.name)))];
  const shown = [...acting.options].map((option) => option.value);
  if (names.join("\n") === shown.join("\n")) return;
  const wanted = acting.value || localStorage.getItem("acting-as");
  acting.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
  if (names.includes(wanted)) acting.value = wanted;
  acting.disabled = !names.length;
}

function setState(state) {
  const node = document.querySelector("[data-testid=connection]");
  node.dataset.state = state;
  node.textContent = STATES[state];
  document.querySelector("[data-testid=banner]").hidden = state === "live";
  document.body.classList.toggle("lost", state !== "live");
  for (const column of columns.values()) column.connect(state === "live");
}

acting.addEventListener("change", () => {
  localStorage.setItem("acting-as", acting.value);
  for (const column of columns.values()) column.actAs(acting.value);
});

for (const tab of document.querySelectorAll(".tabs button")) {
  tab.addEventListener("click", () => {
    document.body.dataset.tab = tab.dataset.tab;
    for (const each of document.querySelectorAll(".tabs button")) each.setAttribute("aria-pressed", String(each === tab));
  });
}

document.addEventListener("visibilitychange", () => {
  for (const column of columns.values()) column.draw();
});

listen(takeFrame, setState);
