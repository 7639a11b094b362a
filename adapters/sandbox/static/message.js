// One message: its author, what it replies to, its parts, documents and buttons.

import { avatar, clock, el, hue, icon } from "./dom.js";
import { formatted } from "./text.js";

const REPLY = "M9.5 6 4 11.5 9.5 17v-3.6c5 0 8.2 1.5 10.5 5-.6-5.6-3.7-9.5-10.5-10z";
const PAPER = "M6 3h8l4 4v14H6zM13 3v5h5";
const EYE = "M2.5 12S6 5.500 12 5.500 21.500 12 21.500 12 18 18.500 12 18.500 2.500 12 2.500 12zM12 9.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5z";

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

// `bubbles`: as on Telegram, one's own on the right, the author named only in groups (`named`); else rows with a head.
// `on` has reply(message), press(message, row, column, button element), open(document), find(message id) and
// dismiss(message id).
export function draw(message, { mine, named, bubbles, on }) {
  if (message.service) {
    return el("li", { class: "service", "data-testid": `message-${message.id}` }, el("span", {}, message.service));
  }
  const head = !bubbles || (named && !mine);
  const time = el("time", { datetime: new Date(message.at * 1000).toISOString() }, clock(message.at));
  const edited = message.edited ? el("span", {}, "edited ") : null;
  const body = [
    message.only ? onlyOne(message, on) : null,
    head ? author(message.author, bubbles ? null : [edited, time]) : null,
    message.reply ? quoted(message.reply, on) : null,
    ...message.documents.map((file) => attached(file, on)),
    message.parts.length ? el("div", { class: "text", "data-testid": `text-${message.id}` }, message.parts.map(part)) : null,
    bubbles ? el("p", { class: "meta" }, edited, time) : null,
  ];
  const reply = el(
    "button",
    { type: "button", class: "reply", "data-testid": `reply-${message.id}`, "aria-label": `Reply to ${message.author.name}`, title: "Reply", onclick: () => on.reply(message) },
    icon(REPLY),
  );
  const classes = ["message", mine && bubbles ? "mine" : "", message.under ? "under" : "", message.only ? "private" : ""];
  return el(
    "li",
    { class: classes.filter(Boolean).join(" "), "data-testid": `message-${message.id}`, tabindex: "-1" },
    head ? avatar(message.author.name) : null,
    el("div", { class: "stack" }, el("div", { class: "line" }, el("div", { class: "bubble" }, body), message.only ? null : reply), keyboard(message, on)),
  );
}

function author({ name, bot }, more) {
  return el("p", { class: "author" }, el("span", { class: `name ${hue(name)}` }, name), bot ? el("span", { class: "tag" }, more ? "app" : "bot") : null, more);
}

function part(part) {
  if (part.kind === "divider") return el("hr");
  if (part.kind !== "embed") return el("div", { class: `part is-${part.kind}` }, formatted(part.text, part.entities));
  const node = el(
    "div",
    { class: "part is-embed" },
    part.text ? el("div", {}, formatted(part.text, part.entities)) : null,
    part.footer ? el("p", { class: "footer" }, part.footer) : null,
  );
  if (Number.isInteger(part.color)) node.style.setProperty("--bar", `#${part.color.toString(16).padStart(6, "0")}`);
  return node;
}

function onlyOne(message, on) {
  return el(
    "p",
    { class: "only" },
    icon(EYE),
    el("span", { "data-testid": `only-${message.id}` }, "Only you see this"),
    el("button", { type: "button", "data-testid": `dismiss-${message.id}`, onclick: () => on.dismiss(message.id) }, "Dismiss"),
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
          return el("button", { ...attributes, type: "button", disabled: button.disabled, onclick: (event) => on.press(message, y, x, event.currentTarget) }, button.text);
        }),
      ),
    ),
  );
}

function safe(address) {
  return /^https?:\/\//i.test(address) ? address : null;
}
