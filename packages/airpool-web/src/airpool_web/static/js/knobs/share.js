// What can be taken along: the network as a file, as a command, as Python; the numbers; the figure.

import { download, el, fill } from "../dom.js";
import { figure } from "../numbers/figure.js";
import { table } from "./csv.js";
import { copied } from "./clipboard.js";

/** Buttons that copy and download what is in force. @param {import("../main.js").Context} context */
export function share({ answers, store, theme, about }) {
  const told = el("p", { class: "told", role: "status" });
  const text = el("pre", { tabindex: 0, hidden: true, "aria-label": "Copied text" });
  const say = (sentence) => {
    told.textContent = sentence;
  };

  async function copy(content, what) {
    fill(text, content);
    text.hidden = false;
    const done = await copied(content);
    if (!done) getSelection().selectAllChildren(text);
    say(done ? `Copied ${what}. It makes the same numbers.` : `Here is ${what}, selected: press Ctrl+C.`);
  }

  const command = () => [answers.parts.network.command ?? []].flat().join("\n");
  const provenance = () => `airpool ${about.version}; ${answers.parts.accuracy?.data ?? ""}\n${command()}`;
  const drawn = () => figure({ curve: answers.parts.curve, here: answers.parts.accuracy, colours: theme.colour, width: 800, height: 480, about: provenance() });

  async function png() {
    const picture = drawn();
    const blob = await rendered(picture.source, 800, 480);
    download("airpool-accuracy.png", blob);
    say("Downloaded airpool-accuracy.png.");
  }

  // settled: what holds many numbers is taken along once all of them are of this network.
  const act = (id, label, needs, then, { settled = false } = {}) => {
    const button = el("button", { type: "button", id, disabled: true }, label);
    button.addEventListener("click", async () => {
      try {
        await then();
      } catch (error) {
        say(`That did not work: ${error.message}`);
      }
    });
    answers.onState(({ parts, busy, error }) => (button.disabled = !parts[needs] || (settled && Boolean(busy || error))));
    return button;
  };
  const file = (name, content, type) => {
    download(name, content, type);
    say(`Downloaded ${name}.`);
  };

  return el("div", { class: "share" },
    el("div", { class: "tools" },
      act("copy-command", "Copy as command", "network", () => copy(command(), "the command")),
      act("copy-python", "Copy as Python", "network", () => copy(answers.parts.network.python, "the program"))),
    text,
    el("div", { class: "tools" },
      act("download-toml", "Network (TOML)", "network", () => file("network.toml", answers.parts.network.toml, "application/toml")),
      act("download-csv", "Numbers (CSV)", "leakage", () => file("airpool.csv", table(answers.parts, store.settings, about.version), "text/csv"), { settled: true }),
      act("download-svg", "Figure (SVG)", "curve", () => file("airpool-accuracy.svg", drawn().source, "image/svg+xml"), { settled: true }),
      act("download-png", "Figure (PNG)", "curve", png, { settled: true })),
    told);
}

async function rendered(source, width, height, scale = 2) {
  const url = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
  try {
    const image = new Image(width * scale, height * scale);
    image.src = url;
    await image.decode();
    const canvas = el("canvas", { width: width * scale, height: height * scale });
    canvas.getContext("2d").drawImage(image, 0, 0, width * scale, height * scale);
    return await new Promise((then, refuse) => canvas.toBlob((blob) => (blob ? then(blob) : refuse(new Error("no picture came out"))), "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}
