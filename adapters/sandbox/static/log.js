// The messages of the open conversation, oldest first, day by day.

import { day, el, reconcile } from "./dom.js";
import { draw } from "./message.js";

// Replies stand under the message that began their thread.
function inThreads(messages) {
  const there = new Set(messages.map((message) => message.id));
  const under = (message) => (message.under && there.has(message.under) ? message.under : null);
  return messages
    .filter((message) => !under(message))
    .flatMap((message) => [message, ...messages.filter((each) => under(each) === message.id)]);
}

export class MessageLog {
  // `on`: what a person does to a message, as in message.js.
  constructor(name, title, on) {
    this.bubbles = name === "telegram";
    this.on = on;
    this.pinned = true;
    this.node = el("ol", { class: "log", role: "log", "aria-label": `${title} messages`, tabindex: "0", "data-testid": `messages-${name}` });
    this.laidOut = "";
    this.sizes = new ResizeObserver(() => this.toEnd());
    this.sizes.observe(this.node);
    this.node.addEventListener("scroll", () => {
      if (this.node.scrollHeight - this.node.scrollTop - this.node.clientHeight < 60) this.pinned = true;
      // A new layout scrolls too, and says nothing of what the person wants to see.
      else if (this.layout() === this.laidOut) this.pinned = false;
    });
  }

  layout() {
    const { clientWidth, clientHeight, scrollHeight } = this.node;
    return `${clientWidth} ${clientHeight} ${scrollHeight}`;
  }

  clear() {
    this.node.replaceChildren();
  }

  draw(messages, { person, named }) {
    if (!this.node.children.length) this.pinned = true;
    const items = [];
    let lastDay = "";
    for (const message of inThreads(messages)) {
      const itsDay = day(message.at);
      if (itsDay !== lastDay) items.push({ day: itsDay, key: `day ${itsDay}` });
      lastDay = itsDay;
      items.push(message);
    }
    const { bubbles, on } = this;
    reconcile(this.node, items, (item) => item.key ?? item.id, (item) => {
      const node = item.day
        ? el("li", { class: "service day" }, el("span", {}, item.day))
        : draw(item, { mine: item.author.id === person, named, bubbles, on });
      this.sizes.observe(node);
      return node;
    });
    this.toEnd();
  }

  // The newest message stays in view unless the person has scrolled away from it; `now`: even then.
  toEnd(now = false) {
    this.pinned ||= now;
    if (this.pinned) this.node.scrollTop = this.node.scrollHeight;
    this.laidOut = this.layout();
  }

  find(id) {
    const node = this.node.querySelector(`[data-key="${CSS.escape(String(id))}"]`);
    if (!node) return;
    node.scrollIntoView({ block: "center" });
    node.focus({ preventScroll: true });
    node.classList.add("found");
    setTimeout(() => node.classList.remove("found"), 1500);
  }
}
