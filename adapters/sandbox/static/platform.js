// One platform's column: who acts in it, its chats, and the open conversation.

import { Composer } from "./composer.js";
import { avatar, clock, el, icon, reconcile } from "./dom.js";
import { act } from "./live.js";
import { MessageLog } from "./log.js";
import { alertBox, fillForm, showDocument, toast } from "./notices.js";

const MARKS = {
  telegram: "M21 4 2.8 11.3l5.6 2.2L18 7l-7.4 8v4.6l2.9-3.3 4.3 3z",
  slack: "M9 3h2.4l-.5 4h4L15.4 3h2.4l-.5 4H21v2.3h-4l-.6 5H20V16.7h-3.9L15.6 21h-2.4l.5-4.3h-4L9.2 21H6.800l.5-4.3H3V14.3h4.6l.6-5H4V7h4.5zM10.6 9.3l-.6 5h4l.6-5z",
  discord: "M7 6c3-1.4 7-1.4 10 0 2 3 3 6.500 2.800 10.500-1.500 1.200-3 1.900-4.300 2.200l-1-1.900c-1.600.4-3.400.4-5 0l-1 1.900c-1.300-.3-2.800-1-4.300-2.200C4 12.500 5 9 7 6zM9 11v2.500M15 11v2.500",
};

// A private chat that there is not yet: on Telegram the person must start it; elsewhere either side just writes.
const STARTS = { telegram: { words: (bot) => `A bot cannot write first. Start the chat, and ${bot} can reach you.`, label: "Start" } };
const OPENS = { words: (bot) => `Nothing was said here yet. Open the chat to write to ${bot}.`, label: "Open" };

function unreadDot() {
  return el("span", { class: "unread" }, el("span", { class: "aside" }, "unread"));
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
    this.chosen = false;
    this.hidden = new Set();
    this.read = new Map();
    this.connected = true;
    this.build();
  }

  build() {
    this.list = el("ul", { class: "chat-list", "data-testid": `chat-list-${this.name}` });
    this.heading = el("h3", { "data-testid": `chat-title-${this.name}` });
    this.about = el("p", {});
    this.face = el("span", {});
    this.topics = el("div", { class: "topics", role: "group", "aria-label": "Topics" });
    this.log = new MessageLog(this.name, this.title, {
      reply: (message) => this.composer.replyTo(message),
      press: (message, row, column, key) => this.press(message, row, column, key),
      open: (file) => showDocument(this.name, file),
      find: (id) => this.log.find(id),
      dismiss: (id) => this.dismiss(id),
    });
    this.acting = el("select", { "data-testid": `acting-as-${this.name}`, onchange: () => this.chooseActing() });
    this.toasts = el("div", { class: "toasts", "data-testid": `toasts-${this.name}`, role: "status", "aria-live": "polite" });
    this.hint = el("div", { class: "hint" });
    this.composer = new Composer(this.name, this.title, this.toasts, (text, reply) => this.say(text, reply));
    const title = `platform-${this.name}`;
    this.node = el(
      "section",
      { class: `platform pane ${this.name}`, "aria-labelledby": title, "data-testid": title },
      el(
        "header",
        { class: "pane-head" },
        el("h2", { id: title }, MARKS[this.name] ? icon(MARKS[this.name]) : null, this.title),
        el("label", { class: "acting" }, el("span", {}, "Acting as"), this.acting),
      ),
      el(
        "div",
        { class: "columns" },
        el("nav", { class: "rail", "aria-label": `${this.title} chats` }, this.list),
        el(
          "div",
          { class: "conversation" },
          el("header", { class: "conversation-head" }, this.face, el("div", {}, this.heading, this.about)),
          this.topics,
          this.toasts,
          this.log.node,
          this.hint,
          this.composer.node,
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
    this.drawPeople();
    this.actAs(this.acting.value);
  }

  drawPeople() {
    const names = this.people.map((person) => [String(person.id), person.name]);
    const shown = [...this.acting.options].map((option) => [option.value, option.text]);
    this.acting.disabled = !names.length;
    if (JSON.stringify(names) === JSON.stringify(shown)) return;
    const wanted = this.acting.value || localStorage.getItem(`acting-as-${this.name}`);
    this.acting.replaceChildren(...names.map(([id, name]) => el("option", { value: id }, name)));
    if (names.some(([id]) => id === wanted)) this.acting.value = wanted;
  }

  chooseActing() {
    localStorage.setItem(`acting-as-${this.name}`, this.acting.value);
    this.actAs(this.acting.value);
  }

  actAs(id) {
    const person = this.people.find((each) => String(each.id) === id)?.id ?? null;
    if (person !== this.person) {
      this.person = person;
      this.read.clear();
      for (const chat of this.mine()) for (const topic of this.topicsOf(chat)) this.markRead(chat, topic);
      if (!this.open || !this.mine().some((chat) => chat.key === this.open)) this.forget();
      this.log.clear();
    }
    this.draw();
  }

  // Nothing is open: the chat with the newest message is, until a person chooses one.
  forget() {
    this.open = null;
    this.chosen = false;
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
    return chat.messages.filter((message) => !message.only || (message.only === this.person && !this.hidden.has(message.id)));
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
    if (!this.chosen && chats.length) this.choose(chats);
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

  // Until a person chooses, the chat is open in which something waits, or else the one with the newest message.
  choose(chats) {
    const asked = (chat) => this.seen(chat).findLast((message) => message.buttons?.length)?.at ?? 0;
    const last = (chat) => this.seen(chat).at(-1)?.at ?? 0;
    const busiest = chats.toSorted((a, b) => asked(b) - asked(a) || last(b) - last(a))[0];
    if (busiest.key !== this.open) this.show(busiest.key, false);
    this.chosen = asked(busiest) > 0;
  }

  preview(chat) {
    const last = this.seen(chat).at(-1);
    if (!chat.started && STARTS[this.name]) return "Not started yet";
    if (!last) return "No messages yet";
    return last.service || last.text.split("\n")[0] || last.documents[0]?.name || "";
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
    this.open = key;
    const chat = this.chats.get(key);
    this.topic = chat?.kind === "forum" ? chat.messages.at(-1)?.thread ?? null : null;
    this.log.clear();
    if (focus) {
      this.chosen = true;
      this.draw();
      if (matchMedia("(hover: hover)").matches) this.composer.focus();
    }
  }

  drawConversation(chat) {
    this.node.classList.toggle("nothing", !chat);
    this.composer.draw({ person: this.person, chat, topic: this.topic, connected: this.connected });
    if (!chat) {
      this.face.replaceChildren();
      this.heading.textContent = this.people.length ? "No chats" : "Nobody here yet";
      this.about.textContent = "";
      this.topics.replaceChildren();
      this.log.clear();
      this.hint.replaceChildren(el("p", { class: "empty", "data-testid": "no-chats" }, "This person is in no chat here."));
      return;
    }
    this.face.replaceChildren(avatar(chat.title));
    this.heading.textContent = chat.title;
    this.about.textContent = chat.kind === "private" ? `@${chat.bot}` : chat.members.join(", ");
    this.drawTopics(chat);
    const messages = this.messagesIn(chat, this.topic);
    this.log.draw(messages, { person: this.person, named: chat.kind !== "private" });
    this.drawHint(chat, messages);
    // What was asked for is at the end, wherever the button was that asked for it.
    if (this.composer.followPrompt(messages)) this.log.toEnd(true);
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
    this.log.clear();
    this.draw();
  }

  drawHint(chat, messages) {
    const nodes = [];
    if (!chat.started) {
      const { words, label } = STARTS[this.name] || OPENS;
      nodes.push(el("p", { class: "empty" }, words(chat.title)));
      nodes.push(el("button", { type: "button", class: "solid", "data-testid": `start-${chat.key}`, disabled: !this.connected, onclick: () => this.start(chat) }, label));
    } else if (chat.closed) {
      nodes.push(el("p", { class: "empty" }, "Nobody can write here any more."));
    } else if (!messages.length) {
      nodes.push(el("p", { class: "empty" }, "No messages here yet."));
    }
    this.hint.replaceChildren(...nodes);
  }

  dismiss(id) {
    this.hidden.add(id);
    this.draw();
    this.log.node.focus({ preventScroll: true });
  }

  tell(text, tone) {
    toast(text, tone, this.toasts);
  }

  async press(message, row, column, key) {
    if (key.getAttribute("aria-busy") === "true") return;
    key.setAttribute("aria-busy", "true");
    try {
      const { confirm } = message.buttons[row][column];
      if (confirm && !(await fillForm(confirm, this.name))) return;
      const person = this.person;
      const answer = await act(`${this.name}/press`, { person, chat: this.open, message: message.id, row, column });
      this.answered(person, message.author.name, answer);
    } catch (error) {
      this.tell(error.message, "bad");
    } finally {
      key.removeAttribute("aria-busy");
    }
  }

  // What a press, a form or a command came to: words for the presser, or a form, which may come back with objections.
  async answered(person, bot, answer) {
    if (!answer.answered) this.tell(`${bot} has not answered.`, "bad");
    else if (answer.text && answer.alert) alertBox(bot, answer.text);
    else if (answer.text) this.tell(answer.text);
    let { form } = answer;
    while (form) {
      const values = await fillForm(form, this.name);
      if (!values) return;
      try {
        return this.answered(person, bot, await act(`${this.name}/submit`, { person, opened: form.opened, values }));
      } catch (error) {
        // What was written is not lost: the form comes back with it.
        const fields = form.fields.map((field) => ({ ...field, value: values[field.name] ?? field.value }));
        form = { ...form, fields, problem: error.message };
      }
    }
  }

  async say(text, reply) {
    const person = this.person;
    const answer = await act(`${this.name}/say`, { person, chat: this.open, text, reply_to: reply?.id ?? null, thread: this.topic });
    if ("answered" in answer) this.answered(person, "The app", answer);
    this.log.toEnd(true);
  }

  async start(chat) {
    try {
      await act(`${this.name}/start`, { chat: chat.key });
    } catch (error) {
      this.tell(error.message, "bad");
    }
  }
}
