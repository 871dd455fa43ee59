// What an attacker with a gallery of shapes paints of one camera's view, from every place where it may listen.

import { percent, plain } from "../words.js";
import { runner, settled } from "../runner.js";

const PLACES = {
  none: ["no signal", "the mean of its gallery: the best guess without any signal"],
  clean: ["no noise", "if the device sent its numbers as they are"],
  link: ["its own signal", "somebody who gets this device alone, with its noise"],
  sum: ["the sum", "the server, which gets all devices at once"],
  repeated: ["all inferences", "the server, after all inferences of the same view"],
};
const DEFAULT = "chair_0";

export function mountPictures(root, { dom, store, api, answers }) {
  const { el, fill } = dom;
  let found = null;
  let asked = "";
  let visible = false;
  const shape = el("select", { id: "attacked-shape", onchange: () => store.set({ object: shape.value }) });
  const camera = el("select", { id: "attacked-device", onchange: () => again() });
  const held = ["holds", "others"].map((value, index) => el("input", { type: "radio", name: "gallery", value, checked: index === 0, onchange: draw }));
  const pictures = el("div", { class: "pictures", "aria-live": "off" });
  const guesses = el("div", {});
  const run = runner({ label: "Paint what it sees", again: "Paint again", run: paint });
  fill(root,
    el("h2", { id: "pictures-title" }, "What can be reconstructed"),
    el("p", {}, "The attacker has pictures of 26 of our own shapes, one of every kind, and knows what each of them would send. It paints the mean of its ",
      "pictures, each weighed by how likely it makes the signal. If the object is in its gallery, no picture is closer on average, and no rule names the object more often. ",
      "It was trained on nothing else."),
    el("div", { class: "choices" },
      el("p", {}, el("label", { for: "attacked-shape" }, "object"), shape),
      el("p", {}, el("label", { for: "attacked-device" }, "camera"), camera),
      el("fieldset", {}, el("legend", {}, "its gallery"),
        el("label", {}, held[0], " holds this very object"),
        el("label", {}, held[1], " holds another of its kind"))),
    run.root, pictures, guesses);
  empty();

  function devices() {
    const count = Number(answers.parts.network?.settings?.devices) || Number(store.get("devices")) || 12;
    const before = camera.value;
    fill(camera, Array.from({ length: Math.min(count, 120) }, (_, k) => el("option", { value: k }, String(k))));
    if (Number(before) < count && before !== "") camera.value = before;
  }

  async function shapes() {
    let names = [];
    try {
      names = (await api.get("/api/shapes")).shapes.map((each) => each.name).filter((name) => !name.startsWith("sample_"));
    } catch {
      // Without the list the shape in the address, or the first, is attacked.
    }
    if (!names.length) names = [attacked()];
    fill(shape, names.map((name) => el("option", { value: name }, name.replaceAll("_", " "))));
    choose();
  }

  /** The shape in the address; a mesh of one's own or a sample is none. */
  function attacked() {
    const name = store.get("object");
    return /^[a-z_]+_[0-9]+$/.test(name) && !name.startsWith("sample_") ? name : DEFAULT;
  }

  function choose() {
    shape.value = attacked();
  }

  function empty() {
    fill(pictures, ["view", ...Object.keys(PLACES).slice(0, 4)].map((key) => el("figure", {},
      el("div", { class: "blank" }), el("figcaption", {}, el("strong", {}, key === "view" ? "the view" : PLACES[key][0])))));
  }

  function what() {
    return { ...store.settings, object: attacked(), device: camera.value || "0", seed: store.get("seed") || "0" };
  }

  async function paint(tell, signal) {
    const content = what();
    asked = JSON.stringify(content);
    await api.stream("/api/reconstruct", content, (part) => {
      if (part.part === "waiting") tell({ text: "Another computation is running; this one is next.", total: 0 });
      else if (part.part === "progress") tell({ text: `Looking at the gallery: ${part.done} of ${part.total} shapes (once).`, ...part });
      else if (part.part === "painted") found = part;
    }, signal);
    draw();
    return "";
  }

  function again() {
    if (!visible || !found) return;
    if (JSON.stringify(what()) !== asked) run.start();
  }

  function draw() {
    if (!found) return;
    const gallery = held.find((each) => each.checked).value;
    const rows = found.galleries[gallery];
    fill(pictures,
      figure("the view", "what the camera sees", found.original, found.side, `The view of camera ${found.device}: ${found.object.replaceAll("_", " ")}`),
      rows.map((row) => {
        const [title, text] = PLACES[row.position];
        const silent = !row.heard ? "The device was silent with this seed." : null;
        return figure(title, text, row.picture, found.side, `Painted from ${title}. Likeness ${row.ssim.toFixed(2)}`,
          el("span", {}, `likeness ${row.ssim.toFixed(2)}`), el("span", {}, `right ${gallery === "holds" ? "shape" : "kind"}: ${Math.round(row.belief * 100)} % sure`), silent && el("span", { class: "soft" }, silent));
      }));
    fill(guesses, table(), sentences());
  }

  function figure(title, text, pixels, side, described, ...more) {
    const canvas = el("canvas", { width: side, height: side, role: "img", "aria-label": described });
    const context = canvas.getContext("2d");
    const image = context.createImageData(side, side);
    const bytes = Uint8Array.from(atob(pixels), (letter) => letter.charCodeAt(0));
    bytes.forEach((value, index) => image.data.set([value, value, value, 255], 4 * index));
    context.putImageData(image, 0, 0);
    return el("figure", {}, canvas, el("figcaption", {}, el("strong", {}, title), el("span", { class: "soft" }, text), more));
  }

  function table() {
    const rows = found.guesses.filter((each) => each.success !== null).map((each) => el("tr", {},
      el("th", { scope: "row" }, PLACES[each.position][0]),
      el("td", { class: "number" }, rate(each)),
      el("td", { class: "number bound" }, percent(each.bound)),
      el("td", {}, note(each))));
    return [el("h3", {}, `Which of the ${found.shapes} shapes is it? Right by chance: ${percent(1 / found.shapes)}.`),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of guesses" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "heard"), el("th", { scope: "col", class: "number" }, "attack"),
        el("th", { scope: "col", class: "number" }, "bound"), el("th", { scope: "col" }, "protection"))),
      el("tbody", {}, rows)))];
  }

  /** Right guesses with their standard error; all or none as counts, of which it is no measure. */
  function rate({ success, error, trials }) {
    if (error > 0) return `${(100 * success).toFixed(1)} % ± ${(100 * error).toFixed(1)}`;
    return `${plain(Math.round(success * trials))} of ${plain(trials)}`;
  }

  function note({ exceeds, position, protected: own }) {
    if (exceeds) return "beyond the bound: something is wrong";
    if (position === "clean") return "nothing protects it";
    return own ? "protected by this device’s own noise" : "the object’s: not protected";
  }

  function sentences() {
    const some = found.guesses.find((each) => each.position === "link");
    return [
      found.estimate && el("p", {}, `Whatever the attack: an estimate of the numbers that this device sends is off by at least ${share(found.estimate.link)} % of ` +
        `a blind guess’s squared error from its own signal, and ${share(found.estimate.sum)} % from the sum with everything else known (for features that spread like a Gaussian).`),
      el("p", { class: "soft" }, `Likeness is SSIM: 1 is the same picture. The pictures are of one signal, seed ${found.seed}; the attack of the table is judged on ` +
        `${plain(some?.trials ?? 0)} signals of all ${found.shapes} shapes, ± one standard error. Where the sum shows the object, that is no fault: ε protects what one view ` +
        "alone shows, and all views show the same object."),
    ];
  }

  const share = (value) => (Math.floor(value * 1000) / 10).toFixed(1);
  store.subscribe(() => choose());
  store.subscribe(settled(again));
  answers.on("network", devices);
  devices();
  return {
    show() {
      if (!shape.options.length) shapes();
      visible = true;
      again();
    },
    hide() {
      visible = false;
    },
  };
}
