// A message's text with its entities (offsets in UTF-16 units, which is how JavaScript counts) as DOM nodes.

import { el } from "./dom.js";

const TAGS = {
  bold: "strong",
  italic: "em",
  underline: "u",
  strikethrough: "s",
  code: "code",
  pre: "pre",
  blockquote: "blockquote",
  expandable_blockquote: "blockquote",
};

const BLOCKS = new Set(["pre", "blockquote", "expandable_blockquote"]);

export function formatted(text, entities) {
  const fragment = document.createDocumentFragment();
  append(fragment, text, 0, text.length, entities);
  return fragment;
}

function append(parent, text, start, end, entities) {
  let position = start;
  let index = 0;
  while (index < entities.length) {
    const entity = entities[index];
    const from = Math.max(entity.offset, position);
    const to = Math.min(entity.offset + entity.length, end);
    const inner = [];
    index += 1;
    while (index < entities.length && entities[index].offset < to) inner.push(entities[index++]);
    if (from >= to) continue;
    const block = BLOCKS.has(entity.type);
    if (from > position) parent.append(block ? text.slice(position, from).replace(/\n$/, "") : text.slice(position, from));
    const node = element(entity, text.slice(from, to));
    append(node, text, from, to, inner);
    parent.append(node);
    // A block ends its line by itself.
    position = block && text[to] === "\n" && to < end ? to + 1 : to;
  }
  if (position < end) parent.append(text.slice(position, end));
}

function element(entity, text) {
  if (entity.type === "text_link" || entity.type === "url") return link(entity.url || text);
  if (entity.type === "spoiler") return spoiler();
  if (entity.type === "pre" && entity.language) return el("pre", { "data-language": entity.language });
  if (TAGS[entity.type]) return el(TAGS[entity.type]);
  return el("span", { class: "live" });
}

function link(address) {
  let url = null;
  try {
    url = new URL(/^[a-z]+:\/\//i.test(address) ? address : `http://${address}`);
  } catch {
    return el("span", { class: "live" });
  }
  if (!["http:", "https:"].includes(url.protocol)) return el("span", { class: "live" });
  return el("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" });
}

function spoiler() {
  const node = el("span", { class: "spoiler", role: "button", tabindex: "0", "aria-label": "Hidden text; press to show" });
  const show = (event) => {
    if (event.type === "keydown" && !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    node.classList.add("shown");
    for (const name of ["role", "tabindex", "aria-label"]) node.removeAttribute(name);
  };
  node.addEventListener("click", show);
  node.addEventListener("keydown", show);
  return node;
}
