// The agent's column: one card for each thing it asked, newest first, and the buttons that set it off.

import { clock, day, el, reconcile } from "./dom.js";
import { act } from "./live.js";
import { toast } from "./notices.js";

// How a call stands, and what its story calls each thing that became of it.
const STATES = { asked: "Waits", waiting: "Waits" };
const WORDS = {
  asked: "Asked",
  waiting: "Waiting",
  allowed: "Allowed",
  declined: "Declined",
  expired: "Expired",
  cancelled: "Withdrawn",
  failed: "Failed",
  note: "Note",
  edited: "Edited",
  ended: "Ended",
};
const ASIDE = ["note", "edited", "ended"];

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
  drawLatest(items[0]);
}

// A turn's entries, call by call: each thing that was asked begins one, and what follows is about it.
function callsOf(entries) {
  const calls = [];
  for (const entry of entries.filter((each) => each.kind !== "ended")) {
    if (entry.kind === "asked" || !calls.length) calls.push([]);
    calls.at(-1).push(entry);
  }
  return calls;
}

function standing(call) {
  return (call.findLast((entry) => !ASIDE.includes(entry.kind)) || call[0]).kind;
}

function pill(kind) {
  return el("span", { class: `pill ${kind}` }, STATES[kind] || WORDS[kind]);
}

function drawLatest(turn) {
  const place = document.querySelector("[data-testid=latest]");
  const call = turn && callsOf(turn.entries).at(-1);
  if (!call) return place.replaceChildren();
  place.replaceChildren(pill(standing(call)), " ", call[0].text || call[0].title);
}

function ask({ key, entries }) {
  const title = entries.findLast((entry) => entry.title)?.title || "";
  const calls = callsOf(entries);
  const ended = entries.some((entry) => entry.kind === "ended");
  const waits = calls.some((call) => standing(call) in STATES);
  const state = ended ? "ended" : waits ? "waiting" : null;
  return el(
    "li",
    { class: "ask", "data-testid": `agent-ask-${key}`, "data-state": state, tabindex: "-1" },
    el("header", {}, el("h3", {}, title || entries[0].text), state ? pill(state) : null),
    el("ol", { class: "calls" }, calls.map((call, place) => drawCall(call, `agent-call-${key}-${place + 1}`))),
  );
}

function drawCall(entries, testid) {
  const kind = standing(entries);
  return el(
    "li",
    { class: "call", "data-testid": testid, "data-kind": kind },
    el("header", {}, el("h4", {}, entries[0].text), pill(kind)),
    el(
      "ol",
      { class: "story" },
      entries.map((entry, place) =>
        el(
          "li",
          { class: entry.kind },
          el("p", {}, el("strong", {}, WORDS[entry.kind]), " ", place ? entry.text : ""),
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
