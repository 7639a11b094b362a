// The agent's column: one card for each thing it asked, newest first, and the buttons that set it off.

import { clock, day, el, reconcile } from "./dom.js";
import { act } from "./live.js";
import { toast } from "./notices.js";

const WORDS = {
  asked: "Asked",
  waiting: "Waiting",
  allowed: "Allowed",
  declined: "Declined",
  expired: "Expired",
  cancelled: "Withdrawn",
  failed: "Failed",
  note: "Note",
};

export function drawAgent(agent) {
  drawActions(agent.actions);
  const asks = new Map();
  for (const entry of agent.entries) {
    const key = entry.ask || `entry-${entry.id}`;
    if (!asks.has(key)) asks.set(key, { key, entries: [] });
    asks.get(key).entries.push(entry);
  }
  const list = document.querySelector(".asks");
  const items = [...asks.values()].reverse();
  document.querySelector("[data-testid=asks-empty]")?.remove();
  if (!items.length) {
    list.after(
      el(
        "p",
        { class: "empty", "data-testid": "asks-empty" },
        "The agent has not asked for anything yet.",
      ),
    );
  }
  reconcile(list, items, (item) => item.key, ask);
  drawLatest(agent.entries.findLast((entry) => entry.kind !== "note"));
}

function drawLatest(entry) {
  const place = document.querySelector("[data-testid=latest]");
  if (!entry) return place.replaceChildren();
  place.replaceChildren(el("span", { class: `pill ${entry.kind}` }, WORDS[entry.kind]), " ", entry.title || entry.text);
}

function ask({ key, entries }) {
  const first = entries[0];
  const last = entries.findLast((entry) => entry.kind !== "note") || first;
  const title = entries.findLast((entry) => entry.title)?.title || "";
  return el(
    "li",
    { class: `ask ${last.kind}`, "data-testid": `agent-ask-${key}`, "data-kind": last.kind, tabindex: "-1" },
    el(
      "header",
      {},
      el("h3", {}, title || first.text),
      el("span", { class: `pill ${last.kind}` }, WORDS[last.kind]),
    ),
    el(
      "ol",
      { class: "story" },
      entries.map((entry) =>
        el(
          "li",
          { class: entry.kind },
          el("p", {}, el("strong", {}, WORDS[entry.kind]), " ", title || entry !== first ? entry.text : ""),
          el("time", { datetime: new Date(entry.at * 1000).toISOString(), title: day(entry.at) }, clock(entry.at)),
          entry.detail ? el("pre", { tabindex: "0", "aria-label": "Details" }, entry.detail) : null,
        ),
      ),
    ),
  );
}

function drawActions(actions) {
  const row = document.querySelector(".actions");
  row.hidden = !actions.length;
  reconcile(row, actions, (action) => action.id, (action) => {
    const button = el("button", { type: "button", class: "quiet", "data-testid": `action-${action.id}` }, action.label);
    button.addEventListener("click", async () => {
      button.setAttribute("aria-busy", "true");
      button.disabled = true;
      try {
        await act("action", { id: action.id });
      } catch (error) {
        toast(error.message, "bad");
      }
      button.disabled = false;
      button.removeAttribute("aria-busy");
      button.focus({ preventScroll: true });
    });
    return button;
  });
}
