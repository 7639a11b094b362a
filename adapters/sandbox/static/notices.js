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
