// One platform's column: its chats, the open conversation, and the place to write.

import { avatar, clock, day, el, icon, reconcile } from "./dom.js";
import { act } from "./live.js";
import { bubble } from "./message.js";
import { alertBox, fillForm, showDocument, toast } from "./notices.js";

const MARKS = {
  telegram: "M21 4 2.8 11.3l5.6 2.2L18 7l-7.4 8v4.6l2.9-3.3 4.3 3z",
  slack: "M9 3h2.4l-.5 4h4L15.4 3h2.4l-.5 4H21v2.3h-4l-.6 5H20V16.7h-3.9L15.6 21h-2.4l.5-4.3h-4L9.2 21H6.800l.5-4.3H3V14.3h4.6l.6-5H4V7h4.5zM10.6 9.3l-.6 5h4l.6-5z",
  discord: "M7 6c3-1.4 7-1.4 10 0 2 3 3 6.500 2.800 10.500-1.500 1.200-3 1.900-4.300 2.200l-1-1.900c-1.600.4-3.400.4-5 0l-1 1.900c-1.300-.3-2.800-1-4.300-2.200C4 12.500 5 9 7 6zM9 11v2.500M15 11v2.500",
};
const SEND = "M4 4l17 8-17 8 3-8z";
const CROSS = "M6 6l12 12M18 6 6 18";

function unreadDot() {
  return el("span", { class: "unread" }, el("span", { class: "aside" }, "unread"));
}

// Replies stand under the message that began their thread.
function inThreads(messages) {
  const there = new Set(messages.map((message) => message.id));
  const under = (message) => (message.under && there.has(message.under) ? message.under : null);
  return messages
    .filter((message) => !under(message))
    .flatMap((message) => [message, ...messages.filter((each) => under(each) === message.id)]);
}

export class PlatformColumn {
  constructor(name, title) {
    this.name = name;
    this.title = title;
    this.chats = new Map();
    this.people = [];
    this.person = null;
    this.open = null;
    this.topic = null;
    this.reply = null;
    this.read = new Map();
    this.drafts = new Map();
    this.dismissed = new Set();
    this.connected = true;
    this.build();
  }

  build() {
    this.list = el("ul", { class: "chat-list", "data-testid": `chat-list-${this.name}` });
    this.heading = el("h3", { "data-testid": `chat-title-${this.name}` });
    this.about = el("p", {});
    this.face = el("span", {});
    this.topics = el("div", { class: "topics", role: "group", "aria-label": "Topics" });
    this.log = el("ol", { class: "log", role: "log", "aria-label": "Messages", tabindex: "0", "data-testid": `messages-${this.name}` });
    this.pinned = true;
    this.log.addEventListener("scroll", () => {
      this.pinned = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
    });
    new ResizeObserver(() => this.toEnd()).observe(this.log);
    this.hint = el("div", { class: "hint" });
    this.quote = el("div", { class: "replying", "data-testid": "reply-bar", hidden: true });
    this.field = el("textarea", { rows: "1", "aria-label": "Message", "data-testid": `composer-${this.name}` });
    this.send = el("button", { class: "send", "aria-label": "Send", title: "Send", "data-testid": `send-${this.name}` }, icon(SEND));
    this.composer = el("form", { class: "composer" }, this.quote, el("div", { class: "write" }, this.field, this.send));
    this.composer.addEventListener("submit", (event) => {
      event.preventDefault();
      this.say();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.say();
      } else if (event.key === "Escape" && this.reply) {
        this.cancelReply();
      }
    });
    this.field.addEventListener("input", () => this.fit());
    const title = `platform-${this.name}`;
    this.node = el(
      "section",
      { class: "platform pane", "aria-labelledby": title, "data-testid": title },
      el("header", { class: "pane-head" }, el("h2", { id: title }, MARKS[this.name] ? icon(MARKS[this.name]) : null, this.title)),
      el(
        "div",
        { class: "columns" },
        el("nav", { class: "rail", "aria-label": `${this.title} chats` }, this.list),
        el(
          "div",
          { class: "conversation" },
          el("header", { class: "conversation-head" }, this.face, el("div", {}, this.heading, this.about)),
          this.topics,
          this.log,
          this.hint,
          this.composer,
        ),
      ),
    );
  }

  take(frame, whole) {
    this.people = frame.people;
    if (whole) this.chats.clear();
    for (const chat of frame.chats) {
      this.chats.set(chat.key, chat);
      // A private chat that was opened stands in the place of the one that could be.
      if (chat.replaces && this.chats.delete(chat.replaces) && this.open === chat.replaces) this.open = chat.key;
    }
  }

  actAs(name) {
    const person = this.people.find((each) => each.name === name)?.id ?? null;
    if (person !== this.person) {
      this.keepDraft();
      this.person = person;
      this.reply = null;
      this.read.clear();
      for (const chat of this.mine()) for (const topic of this.topicsOf(chat)) this.markRead(chat, topic);
      if (!this.open || !this.mine().some((chat) => chat.key === this.open)) this.open = null;
      this.log.replaceChildren();
    }
    this.draw();
  }

  connect(connected) {
    this.connected = connected;
    this.draw();
  }

  mine() {
    const mine = [...this.chats.values()].filter((chat) => chat.people.includes(this.person));
    return mine.sort((a, b) => Number(b.kind === "private") - Number(a.kind === "private") || a.key.localeCompare(b.key));
  }

  // The ids of a chat's topics; a chat without topics has one stretch of messages, null.
  topicsOf(chat) {
    return chat.kind === "forum" ? [null, ...chat.topics.map((topic) => topic.id)] : [null];
  }

  // What this person sees of a chat; a word to one person is seen by that person only.
  seen(chat) {
    return chat.messages.filter((message) => !message.only || message.only === this.person);
  }

  messagesIn(chat, topic) {
    const seen = this.seen(chat);
    return chat.kind === "forum" ? seen.filter((message) => (message.thread ?? null) === topic) : seen;
  }

  markRead(chat, topic) {
    this.read.set(`${chat.key}/${topic}`, this.messagesIn(chat, topic).at(-1)?.id ?? 0);
  }

  unread(chat, topic) {
    return (this.messagesIn(chat, topic).at(-1)?.id ?? 0) > (this.read.get(`${chat.key}/${topic}`) ?? 0);
  }

  draw() {
    const chats = this.mine();
    if (!this.open && chats.length) {
      const last = (chat) => this.seen(chat).at(-1)?.at ?? 0;
      const busiest = chats.reduce((a, b) => (last(b) > last(a) ? b : a));
      this.show(busiest.key, false);
    }
    const chat = this.chats.get(this.open);
    if (chat && !this.topicsOf(chat).includes(this.topic)) this.topic = null;
    if (chat && !document.hidden) this.markRead(chat, this.topic);
    const rows = chats.map((each) => ({
      key: each.key,
      title: each.title,
      last: this.preview(each),
      at: this.seen(each).at(-1)?.at ?? null,
      open: each.key === this.open,
      unread: this.topicsOf(each).some((topic) => this.unread(each, topic)),
    }));
    reconcile(this.list, rows, (row) => row.key, (row) => this.row(row));
    this.drawConversation(chat);
  }

  preview(chat) {
    const last = this.seen(chat).at(-1);
    if (!chat.started) return "Not started yet";
    if (!last) return "No messages yet";
    return last.service || last.text.split("\n")[0] || last.document?.name || "";
  }

  row({ key, title, last, at, open, unread }) {
    return el(
      "li",
      {},
      el(
        "button",
        { type: "button", class: "chat", "aria-current": open ? "true" : null, "data-testid": `chat-${key}`, onclick: () => this.show(key) },
        avatar(title),
        el(
          "span",
          { class: "what" },
          el("strong", {}, title),
          el("time", {}, at ? clock(at) : ""),
          el("span", { class: "preview" }, last),
          unread ? unreadDot() : null,
        ),
      ),
    );
  }

  show(key, focus = true) {
    this.keepDraft();
    this.open = key;
    const chat = this.chats.get(key);
    this.topic = chat?.kind === "forum" ? chat.messages.at(-1)?.thread ?? null : null;
    this.reply = null;
    this.field.value = this.drafts.get(`${this.person}/${key}`) || "";
    this.log.replaceChildren();
    if (focus) {
      this.draw();
      if (!this.field.disabled && matchMedia("(hover: hover)").matches) this.field.focus();
    }
  }

  keepDraft() {
    if (this.open) this.drafts.set(`${this.person}/${this.open}`, this.field.value);
  }

  drawConversation(chat) {
    this.node.classList.toggle("nothing", !chat);
    this.composer.hidden = !chat || !chat.started || chat.closed;
    if (!chat) {
      this.face.replaceChildren();
      this.heading.textContent = this.people.length ? "No chats" : "Nobody here yet";
      this.about.textContent = "";
      this.topics.replaceChildren();
      this.log.replaceChildren();
      this.hint.replaceChildren(el("p", { class: "empty", "data-testid": "no-chats" }, "This person is in no chat here."));
      return;
    }
    this.face.replaceChildren(avatar(chat.title));
    this.heading.textContent = chat.title;
    this.about.textContent = chat.kind === "private" ? `@${chat.bot}` : chat.members.join(", ");
    this.drawTopics(chat);
    const messages = this.messagesIn(chat, this.topic);
    this.drawLog(messages, chat.kind !== "private");
    this.drawHint(chat, messages);
    this.followPrompt(messages);
    this.drawReply(chat);
    this.field.disabled = this.send.disabled = !this.connected;
    this.fit();
  }

  drawTopics(chat) {
    this.topics.hidden = chat.kind !== "forum";
    if (this.topics.hidden) return;
    const all = [{ id: null, name: "General" }, ...chat.topics];
    const items = all.map((topic) => ({ ...topic, open: topic.id === this.topic, unread: this.unread(chat, topic.id) }));
    reconcile(this.topics, items, (topic) => topic.id ?? "general", (topic) =>
      el(
        "button",
        { type: "button", "aria-pressed": String(topic.open), "data-testid": `topic-${topic.id ?? "general"}`, onclick: () => this.showTopic(topic.id) },
        topic.name,
        topic.unread ? unreadDot() : null,
      ),
    );
  }

  showTopic(id) {
    this.topic = id;
    this.reply = null;
    this.log.replaceChildren();
    this.draw();
  }

  drawLog(messages, named) {
    if (!this.log.children.length) this.pinned = true;
    const items = [];
    let lastDay = "";
    for (const message of inThreads(messages)) {
      const itsDay = day(message.at);
      if (itsDay !== lastDay) items.push({ day: itsDay, key: `day ${itsDay}` });
      lastDay = itsDay;
      items.push(message);
    }
    const on = {
      reply: (message) => this.replyTo(message),
      press: (message, row, column, key) => this.press(message, row, column, key),
      open: (file) => showDocument(this.name, file),
      find: (id) => this.find(id),
    };
    reconcile(this.log, items, (item) => item.key ?? item.id, (item) =>
      item.day ? el("li", { class: "service day" }, el("span", {}, item.day)) : bubble(item, item.author.id === this.person, named, on),
    );
    this.toEnd();
  }

  // The newest message stays in view unless the person has scrolled away from it.
  toEnd() {
    if (this.pinned) this.log.scrollTop = this.log.scrollHeight;
  }

  drawHint(chat, messages) {
    const nodes = [];
    if (!chat.started) {
      nodes.push(el("p", { class: "empty" }, `A bot cannot write first. Start the chat, and ${chat.title} can reach you.`));
      nodes.push(el("button", { type: "button", class: "solid", "data-testid": `start-${chat.key}`, disabled: !this.connected, onclick: () => this.start(chat) }, "Start"));
    } else if (chat.closed) {
      nodes.push(el("p", { class: "empty" }, "This group moved on. Write in the supergroup."));
    } else if (!messages.length) {
      nodes.push(el("p", { class: "empty" }, "No messages here yet."));
    }
    this.hint.replaceChildren(...nodes);
  }

  // A ForceReply that is meant for this person and newest opens the reply by itself, once.
  followPrompt(messages) {
    const last = messages.at(-1);
    if (!last?.prompt || this.dismissed.has(`${this.person}/${last.id}`)) return;
    if (last.prompt.people && !last.prompt.people.includes(this.person)) return;
    if (this.reply?.id === last.id) return;
    this.dismissed.add(`${this.person}/${last.id}`);
    this.replyTo(last);
  }

  drawReply(chat) {
    if (this.reply && !chat.messages.some((message) => message.id === this.reply.id)) this.reply = null;
    this.quote.hidden = !this.reply;
    this.field.placeholder = this.reply?.prompt?.placeholder || (this.reply ? "Write a reply" : "Write a message");
    if (!this.reply) {
      this.quote.replaceChildren();
      return;
    }
    this.quote.replaceChildren(
      el("div", {}, el("strong", {}, `Reply to ${this.reply.author.name}`), el("span", {}, (this.reply.text || this.reply.document?.name || "").slice(0, 160))),
      el("button", { type: "button", class: "quiet", "aria-label": "Cancel the reply", "data-testid": "reply-cancel", onclick: () => this.cancelReply() }, icon(CROSS)),
    );
  }

  replyTo(message) {
    this.reply = message;
    const chat = this.chats.get(this.open);
    if (chat) this.drawReply(chat);
    this.field.focus();
  }

  cancelReply() {
    this.reply = null;
    this.draw();
    this.field.focus();
  }

  find(id) {
    const node = this.log.querySelector(`[data-key="${CSS.escape(String(id))}"]`);
    if (!node) return;
    node.scrollIntoView({ block: "center" });
    node.focus({ preventScroll: true });
    node.classList.add("found");
    setTimeout(() => node.classList.remove("found"), 1500);
  }

  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, 160)}px`;
  }

  async press(message, row, column, key) {
    if (key.getAttribute("aria-busy") === "true") return;
    key.setAttribute("aria-busy", "true");
    const title = message.author.name;
    try {
      const { confirm } = message.buttons[row][column];
      if (confirm && !(await fillForm(confirm))) return;
      const person = this.person;
      const answer = await act(`${this.name}/press`, { person, chat: this.open, message: message.id, row, column });
      if (!answer.answered) toast(`${title} has not answered the press.`, "bad");
      else if (answer.form) this.submit(person, title, answer.form);
      else if (answer.text && answer.alert) alertBox(title, answer.text);
      else if (answer.text) toast(answer.text);
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      key.removeAttribute("aria-busy");
    }
  }

  async submit(person, title, form) {
    const values = await fillForm(form);
    if (!values) return;
    try {
      const answer = await act(`${this.name}/submit`, { person, opened: form.opened, values });
      if (!answer.answered) toast(`${title} has not answered.`, "bad");
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  async say() {
    const text = this.field.value.trim();
    if (!text || this.send.disabled) return;
    const reply = this.reply;
    this.field.value = "";
    this.reply = null;
    this.fit();
    this.draw();
    try {
      await act(`${this.name}/say`, { person: this.person, chat: this.open, text, reply_to: reply?.id ?? null, thread: this.topic });
      this.pinned = true;
      this.toEnd();
    } catch (error) {
      this.field.value = text;
      this.reply = reply;
      this.draw();
      toast(error.message, "bad");
    }
  }

  async start(chat) {
    try {
      await act(`${this.name}/start`, { chat: chat.key });
    } catch (error) {
      toast(error.message, "bad");
    }
  }
}
