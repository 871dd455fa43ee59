// One inference on demand. It spends the devices' budgets, so it needs the operator's token, kept in this form alone.

import { ms, rounded } from "./model.js";

export class Ask {
  constructor({ dom, api }) {
    this.dom = dom;
    this.api = api;
    this.token = dom.el("input", { type: "password", id: "live-token", autocomplete: "off", required: true, maxlength: 256 });
    this.button = dom.el("button", { type: "submit" }, "Ask for an inference");
    this.note = dom.el("p", { class: "soft", id: "live-ask-note" });
    this.result = dom.el("p", { role: "status", class: "live-reason" }, "\u00a0");
    this.button.setAttribute("aria-describedby", "live-ask-note");
    const form = dom.el(
      "form",
      { onsubmit: (event) => this.ask(event) },
      dom.el("p", {}, dom.el("label", { for: "live-token" }, "Operator's token "), this.token),
      this.button,
      this.note,
      this.result,
    );
    this.root = dom.el("section", { "aria-label": "Ask for an inference" }, dom.el("h3", {}, "Ask for one"), form);
    this.asking = false;
  }

  draw(model) {
    const connected = model.connection.state === "connected";
    this.button.disabled = !model.ask.allowed || !connected || this.asking;
    this.token.disabled = !model.ask.allowed;
    const cost = model.system ? ` Every device charges ε = ${rounded(model.system.guarantee.device, 2, true)}.` : "";
    this.note.textContent = model.ask.allowed
      ? connected
        ? `Watching changes nothing; this spends budget.${cost}`
        : "Not while the server is not connected."
      : `Not here: ${model.ask.reason}.`;
  }

  async ask(event) {
    event.preventDefault();
    this.asking = this.button.disabled = true;
    this.result.textContent = "Asking …";
    try {
      const found = await this.api.post("/api/live/infer", { token: this.token.value });
      const what = found.status === "answered" ? `${found.name}, probability ${found.probability.toFixed(2)}` : `${found.status}: ${found.reason}`;
      this.result.textContent = `Inference ${found.number}: ${what}, ${ms(found.seconds)}.`;
    } catch (error) {
      this.result.textContent = `${error.message}.`;
    } finally {
      this.asking = this.button.disabled = false;
    }
  }
}
