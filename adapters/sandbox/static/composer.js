// The place to write in a column: the text field, what it replies to, and a draft for each person and chat.

import { el, icon } from "./dom.js";
import { toast } from "./notices.js";

const SEND = "M4 4l17 8-17 8 3-8z";
const CROSS = "M6 6l12 12M18 6 6 18";

const MOST_PX = 160;

function labels(card) {
  return (card?.buttons ?? []).flat().map((button) => button.text);
}

export class Composer {
  // `say(text, reply)` sends, and rejects with what to tell; `toasts` is where that is shown.
  constructor(name, title, toasts, say) {
    this.toasts = toasts;
    this.say = say;
    this.place = "";
    this.shown = {};
    this.reply = null;
    this.drafts = new Map();
    this.dismissed = new Set();
    this.quote = el("div", { class: "replying", "data-testid": `reply-bar-${name}`, hidden: true });
    this.field = el("textarea", { rows: "1", "aria-label": `Message on ${title}`, "data-testid": `composer-${name}` });
    this.ghost = el("span", { class: "ghost", "aria-hidden": "true" });
    this.button = el("button", { class: "send", "aria-label": "Send", title: "Send", "data-testid": `send-${name}` }, icon(SEND));
    this.node = el("form", { class: "composer" }, this.quote, el("div", { class: "write" }, this.field, this.ghost, this.button));
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send();
      } else if (event.key === "Escape" && this.reply) {
        this.replyTo(null);
      }
    });
    this.field.addEventListener("input", () => this.fit());
  }

  // Shows the field of a person in a chat (and its topic); another place has a draft of its own.
  draw(shown) {
    const { person, chat, topic, connected } = shown;
    const place = `${person}/${chat?.key}/${topic}`;
    if (place !== this.place) {
      this.drafts.set(this.place, this.field.value);
      this.place = place;
      this.reply = null;
      this.field.value = this.drafts.get(place) || "";
    }
    this.shown = shown;
    this.node.hidden = !chat || !chat.started || chat.closed;
    this.field.disabled = this.button.disabled = !connected;
    if (this.reply && this.isOver(this.reply)) this.endReply();
    this.drawReply();
    this.fit();
  }

  drawReply() {
    const { chat } = this.shown;
    const to = this.reply;
    const hint = !chat || chat.kind === "private" ? "Write a message" : `Write to ${chat.title}`;
    this.field.placeholder = to?.prompt?.placeholder || (to ? "Write a reply" : chat?.command ? `${hint}, or ${chat.command}` : hint);
    this.ghost.textContent = this.field.placeholder;
    this.quote.hidden = !to;
    if (!to) return this.quote.replaceChildren();
    this.quote.replaceChildren(
      el("div", {}, el("strong", {}, `Reply to ${to.author.name}`), el("span", {}, (to.text || to.documents[0]?.name || "").slice(0, 160))),
      el("button", { type: "button", class: "quiet", "aria-label": "Cancel the reply", "data-testid": "reply-cancel", onclick: () => this.replyTo(null) }, icon(CROSS)),
    );
  }

  replyTo(message) {
    this.reply = message && { ...message, asked: labels(this.cardOf(message)) };
    this.drawReply();
    this.field.focus();
  }

  // What a message is about: a prompt asks for a word about the card that it stands under.
  cardOf({ id, prompt, reply }) {
    const about = prompt && reply ? reply.id : id;
    return this.shown.chat?.messages.find((message) => message.id === about);
  }

  // Nothing waits for a reply to this message any more: it is gone, was answered where it asked (here or in another
  // window of this person), or its card was settled, and has none of the buttons that it had.
  isOver(message) {
    const { person, chat } = this.shown;
    const messages = chat?.messages ?? [];
    if (!messages.some((each) => each.id === message.id)) return true;
    if (message.prompt && messages.some((each) => each.reply?.id === message.id && each.author.id === person)) return true;
    const card = this.cardOf(message);
    const left = labels(card);
    if (message.asked?.length) return !message.asked.some((label) => left.includes(label));
    return Boolean(message.prompt && card !== message && card?.edited && card.author.bot && !left.length);
  }

  endReply() {
    this.reply = null;
    // What was written stays; it would now go to nobody in particular.
    if (this.field.value.trim()) toast("This was answered meanwhile. What you write now is a message of its own.", "plain", this.toasts);
  }

  // A ForceReply that is meant for this person and newest opens the reply by itself, once; whether it did.
  followPrompt(messages) {
    const last = messages.at(-1);
    const { person } = this.shown;
    if (!last?.prompt || this.dismissed.has(`${person}/${last.id}`)) return false;
    if (last.prompt.people && !last.prompt.people.includes(person)) return false;
    if (this.reply?.id === last.id || this.isOver(last)) return false;
    this.dismissed.add(`${person}/${last.id}`);
    this.replyTo(last);
    return true;
  }

  focus() {
    if (!this.field.disabled) this.field.focus();
  }

  fit() {
    const { field } = this;
    // Only what was written makes the field grow, and scroll when it is long.
    const hint = field.placeholder;
    if (field.value) field.placeholder = "";
    field.style.height = "auto";
    const wanted = field.value ? field.scrollHeight + field.offsetHeight - field.clientHeight : 0;
    field.placeholder = hint;
    field.style.height = wanted ? `${Math.min(wanted, MOST_PX)}px` : "";
    field.style.overflowY = wanted > MOST_PX ? "auto" : "hidden";
  }

  async send() {
    const text = this.field.value.trim();
    if (!text || this.button.disabled) return;
    const { reply, place } = this;
    this.field.value = "";
    this.reply = null;
    this.drawReply();
    this.fit();
    try {
      await this.say(text, reply);
    } catch (error) {
      toast(error.message, "bad", this.toasts);
      if (this.place !== place) return this.drafts.set(place, text);
      this.field.value = text;
      this.reply = reply;
      this.drawReply();
      this.fit();
    }
  }
}
