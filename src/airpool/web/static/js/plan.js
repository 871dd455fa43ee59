/** Mounts the view into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export function mount(root, { dom }) {
  dom.fill(root, dom.el("p", {}, "plan"));
}
