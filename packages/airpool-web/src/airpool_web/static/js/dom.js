// Elements from data. Text from the server is always text: nothing here parses markup.

/**
 * An element: `el("p", { class: "lead", onclick: f }, "text", child)`.
 * Attributes that are null, undefined or false are left out; true is an empty attribute; functions are listeners.
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.replace(/^on/, ""), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Replaces what an element holds. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return parent;
}

/** A file for the user, from text or a blob. */
export function download(name, content, type = "text/plain") {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Says something once, politely, to those who look and to those who listen. An empty text removes it. */
export function notice(text, kind = "plain") {
  const place = document.getElementById("notice");
  place.hidden = !text;
  place.dataset.kind = kind;
  place.textContent = text;
}
