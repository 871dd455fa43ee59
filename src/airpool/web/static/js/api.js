// Asks the server. Every mistake becomes an AskedError with a sentence for people.

export class AskedError extends Error {
  /** @param {string} text @param {string | null} field The setting at fault. */
  constructor(text, field = null) {
    super(text);
    this.field = field;
  }
}

const LOST = "The page has lost its server. Is `airpool ui` still running? It tries again by itself.";

async function sent(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    dispatchEvent(new CustomEvent("airpool-connection", { detail: false }));
    throw new AskedError(LOST);
  }
}

async function checked(response) {
  dispatchEvent(new CustomEvent("airpool-connection", { detail: true }));
  if (response.ok) return response;
  let told = {};
  try {
    told = await response.json();
  } catch {
    // No JSON: the status has to do.
  }
  throw new AskedError(told.error ?? `The server answered with status ${response.status}.`, told.field ?? null);
}

const asJson = (content, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(content),
  signal,
});

/** What a path answers, as JSON. */
export async function get(path, signal) {
  return (await checked(await sent(path, { signal }))).json();
}

/** What a path answers to this content, as JSON. */
export async function post(path, content, signal) {
  return (await checked(await sent(path, asJson(content, signal)))).json();
}

/** What a path answers to a file; its name goes along. */
export async function upload(path, file, signal) {
  const headers = { "Content-Type": "application/octet-stream", "X-Name": encodeURIComponent(file.name ?? "") };
  const options = { method: "POST", headers, body: file, signal };
  return (await checked(await sent(path, options))).json();
}

/** Calls `onPart` with every part of a long answer, as it arrives. Its last part may be an error, which is thrown. */
export async function stream(path, content, onPart, signal) {
  const response = await checked(await sent(path, asJson(content, signal)));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new AskedError(LOST);
    }
    if (piece.done) return;
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const part = JSON.parse(line);
      if (part.part === "error") throw new AskedError(part.error, part.field);
      onPart(part);
    }
  }
}
