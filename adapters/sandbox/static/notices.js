// Toasts, alerts, forms and the window that shows a document.

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

// Opens a platform's form; `send(values)` gets the text of each field by its name once the person sends it.
export function fillForm(form, send) {
  const dialog = document.getElementById("form");
  const fields = form.fields.map((field) => {
    const attributes = { id: `form-${field.name}`, "data-testid": `form-${field.name}`, maxlength: field.most, required: field.required, placeholder: field.placeholder };
    const input = field.long ? el("textarea", { ...attributes, rows: "5" }) : el("input", attributes);
    input.value = field.value;
    return { name: field.name, input, node: el("p", {}, el("label", { for: attributes.id }, field.label), input) };
  });
  dialog.querySelector("h2").textContent = form.title;
  dialog.querySelector("[data-testid=form-fields]").replaceChildren(...fields.map((field) => field.node));
  dialog.onclose = () => {
    if (dialog.returnValue === "send") send(Object.fromEntries(fields.map((field) => [field.name, field.input.value])));
  };
  dialog.returnValue = "";
  dialog.showModal();
  fields[0]?.input.focus();
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
