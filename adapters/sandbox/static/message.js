// One message as a bubble: author, what it replies to, text, document, buttons.

import { avatar, clock, el, hue, icon } from "./dom.js";
import { formatted } from "./text.js";

const REPLY = "M9.5 6 4 11.5 9.5 17v-3.6c5 0 8.2 1.5 10.5 5-.6-5.6-3.7-9.5-10.5-10z";
const PAPER = "M6 3h8l4 4v14H6zM13 3v5h5";

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

// `named`: with its author, as in groups. `on` has reply(message), press(message, row, column, button element), open(document), find(message id).
export function bubble(message, mine, named, on) {
  if (message.service) {
    return el("li", { class: "service", "data-testid": `message-${message.id}` }, el("span", {}, message.service));
  }
  const body = [
    mine || !named ? null : el("p", { class: `author ${hue(message.author.name)}` }, message.author.name, message.author.bot ? el("span", { class: "tag" }, "bot") : null),
    message.reply ? quoted(message.reply, on) : null,
    message.document ? attached(message.document, on) : null,
    message.text ? el("div", { class: "text", "data-testid": `text-${message.id}` }, formatted(message.text, message.entities)) : null,
    el(
      "p",
      { class: "meta" },
      message.only ? el("span", { class: "only", "data-testid": `only-${message.id}` }, "Only you see this ") : null,
      message.edited ? el("span", {}, "edited ") : null,
      el("time", { datetime: new Date(message.at * 1000).toISOString() }, clock(message.at)),
    ),
  ];
  const reply = el(
    "button",
    { type: "button", class: "reply", "data-testid": `reply-${message.id}`, "aria-label": `Reply to ${message.author.name}`, title: "Reply", onclick: () => on.reply(message) },
    icon(REPLY),
  );
  return el(
    "li",
    { class: `message ${mine ? "mine" : ""} ${message.under ? "under" : ""} ${message.only ? "private" : ""}`, "data-testid": `message-${message.id}`, tabindex: "-1" },
    mine || !named ? null : avatar(message.author.name),
    el("div", { class: "stack" }, el("div", { class: "line" }, el("div", { class: "bubble" }, body), message.only ? null : reply), keyboard(message, on)),
  );
}

function quoted(reply, on) {
  return el(
    "button",
    { type: "button", class: "quoted", onclick: () => on.find(reply.id) },
    el("strong", {}, reply.name),
    el("span", {}, reply.text),
  );
}

function attached(file, on) {
  return el(
    "button",
    { type: "button", class: "file", "data-testid": `document-${file.name}`, onclick: () => on.open(file) },
    icon(PAPER),
    el("span", {}, el("strong", {}, file.name), el("small", {}, size(file.size))),
  );
}

function keyboard(message, on) {
  if (!message.buttons.length) return null;
  return el(
    "div",
    { class: "keyboard", role: "group", "aria-label": "Buttons of this message" },
    message.buttons.map((row, y) =>
      el(
        "div",
        { class: "row" },
        row.map((button, x) => {
          const attributes = { class: `key ${button.style || ""}`, "data-testid": `button-${message.id}-${y}-${x}` };
          if (button.url) {
            return el("a", { ...attributes, href: safe(button.url), target: "_blank", rel: "noopener noreferrer" }, button.text, " ↗");
          }
          return el("button", { ...attributes, type: "button", onclick: (event) => on.press(message, y, x, event.currentTarget) }, button.text);
        }),
      ),
    ),
  );
}

function safe(address) {
  return /^https?:\/\//i.test(address) ? address : null;
}
