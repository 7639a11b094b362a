// Toasts, alerts, forms and the window that shows a document.

import { el } from "./dom.js";

const TOAST_MS = 5_000;

export function toast(text, tone = "plain", area = document.getElementById("toasts")) {
  const node = el("p", { class: `toast ${tone}`, "data-testid": "toast" }, text);
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

// Asks with a dialog of `title`, `words`, `fields` and two buttons, `submit` and `close`, that looks like `platform`'s;
// resolves to the text of each field by its name, or to null when it was closed. `problem` is why it is there again.
export function fillForm({ title, words, fields, submit, close, problem }, platform) {
  return new Promise((resolve) => {
    const inputs = fields.map(input);
    const form = el(
      "form",
      { method: "dialog" },
      el("h2", { id: "form-title" }, title),
      el("div", { class: "fields" }, words.map((said) => el("p", {}, said)), problem ? el("p", { class: "wrong", role: "alert", "data-testid": "form-problem" }, problem) : null, inputs.map((each) => each.node)),
      el(
        "div",
        { class: "choices" },
        el("button", { class: "quiet", type: "button", "data-testid": "form-close", onclick: () => dialog.close() }, close),
        el("button", { class: "solid", value: "submit", "data-testid": "form-submit" }, submit),
      ),
    );
    const dialog = el("dialog", { class: `form ${platform}`, "data-testid": "form", "aria-labelledby": "form-title" }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "submit" ? Object.fromEntries(inputs.map(({ name, node }) => [name, node.control.value])) : null);
    });
    document.body.append(dialog);
    dialog.showModal();
    (inputs.find((each) => each.wrong) || inputs[0])?.node.control.focus();
  });
}

function input(field, place) {
  const hint = field.hint ? el("small", { id: `form-hint-${place}` }, field.hint) : null;
  const wrong = field.error ? el("small", { id: `form-error-${place}`, class: "wrong", role: "alert" }, field.error) : null;
  const attributes = {
    "data-testid": `form-${field.name}`, maxlength: field.most, minlength: field.least || null, required: field.required,
    placeholder: field.placeholder || null, "aria-invalid": wrong ? "true" : null,
    "aria-describedby": [hint, wrong].filter(Boolean).map((node) => node.id).join(" ") || null,
  };
  const control = field.long ? el("textarea", { ...attributes, rows: "5" }) : el("input", attributes);
  control.value = field.value;
  const label = el("span", {}, field.label, field.required ? null : el("i", {}, " (optional)"));
  return { name: field.name, wrong, node: el("label", {}, label, control, hint, wrong) };
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
