// Builds elements. Text always goes in as text: nothing here, or anywhere else on this page, parses HTML.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function icon(path) {
  const svg = fill(document.createElementNS(SVG, "svg"), { viewBox: "0 0 24 24", "aria-hidden": "true", class: "icon" }, []);
  svg.append(fill(document.createElementNS(SVG, "path"), { d: path }, []));
  return svg;
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// Brings a parent's children in line with a list, touching only what changed, so that focus and scroll stay.
export function reconcile(parent, items, key, build) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstChild;
  for (const item of items) {
    const id = String(key(item));
    const print = JSON.stringify(item);
    let node = old.get(id);
    old.delete(id);
    if (!node || node.print !== print) {
      const fresh = build(item);
      fresh.dataset.key = id;
      fresh.print = print;
      if (node) {
        const focused = node.contains(document.activeElement) ? document.activeElement.dataset.testid : "";
        if (place === node) place = fresh;
        node.replaceWith(fresh);
        if (focused) (fresh.querySelector(`[data-testid="${CSS.escape(focused)}"]`) || fresh).focus({ preventScroll: true });
      }
      node = fresh;
    }
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  for (const node of old.values()) node.remove();
}

export function clock(seconds) {
  // Of 24 hours, as the cards write theirs, whatever the browser's language does.
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

export function day(seconds) {
  const date = new Date(seconds * 1000);
  const today = new Date();
  if (date.toDateString() === today.toDateString()) return "Today";
  today.setDate(today.getDate() - 1);
  if (date.toDateString() === today.toDateString()) return "Yesterday";
  return date.toLocaleDateString([], { day: "numeric", month: "long", year: "numeric" });
}

export function initials(name) {
  const words = name.split(/\s+/).filter(Boolean);
  return ((words[0]?.[0] || "?") + (words.length > 1 ? words.at(-1)[0] : "")).toUpperCase();
}

export function hue(name) {
  let sum = 0;
  for (const char of name) sum = (sum * 31 + char.codePointAt(0)) % 997;
  return `hue-${sum % 6}`;
}

export function avatar(name) {
  return el("span", { class: `avatar ${hue(name)}`, "aria-hidden": "true" }, initials(name));
}
