// Toasts, alerts and the window that shows a document.

import { el } from "./dom.js";

const TOAST_MS = 5_000;

export function toast(text, tone = "plain") {
  const node = el("p", { class: `toast ${tone}`, "data-testid": "toast" }, text);
  const area = document.getElementById("toasts");
  while (area.children.length > 2) area.firstChild.remove();
  area.append(node);
  setTimeout(() => node.remove(), TOAST_MS + text.length * 30);
}

export function alertBox(title, text) {
  const dialog = document.getElementById("alert");
  dialog.querySelector("h2").textContent = title;
  dialog.querySelector("p").textContent = text;
  if (!dialog.open) dialog.showModal();
}

// Asks for a yes; resolves to whether it was given. `asked` has title, text, confirm and deny.
export function confirmBox(asked) {
  return ask(asked.title, [el("p", {}, asked.text)], asked.confirm, asked.deny, () => true).then((answer) => answer === true);
}

// A form with one field; resolves to its text, or null when it was closed.
export function formBox(modal) {
  const field = el("textarea", { rows: "4", required: true, maxlength: modal.most, "aria-label": modal.label, "data-testid": "modal-field", autofocus: true });
  const body = [...modal.words.map((words) => el("p", {}, words)), el("label", {}, el("span", {}, modal.label), field)];
  return ask(modal.title, body, modal.submit, modal.close, () => field.value);
}

function ask(title, body, yes, no, answer) {
  return new Promise((resolve) => {
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", {}, title),
      body,
      el(
        "div",
        { class: "choices" },
        el("button", { class: "quiet", value: "no", type: "button", "data-testid": "modal-no", onclick: () => dialog.close("no") }, no),
        el("button", { class: "solid", value: "yes", "data-testid": "modal-yes" }, yes),
      ),
    );
    const dialog = el("dialog", { class: "alert form", "data-testid": "modal", "aria-label": title }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? answer() : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export async function showDocument(platform, file) {
  const address = `/sandbox/${platform}/file/${encodeURIComponent(file.file_id)}`;
  const dialog = document.getElementById("document");
  const body = dialog.querySelector("pre");
  const download = dialog.querySelector("a");
  dialog.querySelector("h2").textContent = file.name;
  download.href = address;
  download.download = file.name;
  body.textContent = "Opening…";
  dialog.showModal();
  try {
    const response = await fetch(address);
    if (!response.ok) throw new Error();
    body.textContent = await response.text();
  } catch {
    body.textContent = "This file could not be opened.";
  }
}
