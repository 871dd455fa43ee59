// Asks the server. Every mistake becomes an AskedError with a sentence for people.

export class AskedError extends Error {
  /** @param {string} text @param {string | null} field The setting at fault. @param {number} status Of HTTP; 0: none. */
  constructor(text, field = null, status = 0) {
    super(text);
    this.field = field;
    this.status = status;
  }
}

const LOST = "The page has lost its server. Is `airpool ui` still running? It tries again by itself.";

let connected = true;

/** Notes whether the server answers, and tells the page when that changes, and only then. */
export function connection(now) {
  if (now === connected) return;
  connected = now;
  dispatchEvent(new CustomEvent("airpool-connection", { detail: now }));
}

async function sent(path, { headers, ...options }) {
  try {
    return await fetch(path, { headers: { ...headers, "X-Errors-In-Body": "1" }, ...options });
  } catch (error) {
    throw lost(error);
  }
}

function lost(error) {
  if (error.name === "AbortError") return error;
  connection(false);
  return new AskedError(LOST);
}

// A user's mistake is {"error": …} with status 200: a browser writes any other status to its console.
async function checked(response) {
  connection(true);
  if (!response.ok) throw refused(response, await read(response));
  return response;
}

async function read(response) {
  try {
    return await response.json();
  } catch {
    return {}; // no JSON: the status has to do
  }
}

async function content(response) {
  const found = await response.json();
  if (typeof found.error === "string") throw refused(response, found);
  return found;
}

function refused(response, told) {
  return new AskedError(told.error ?? `The server answered with status ${response.status}.`, told.field ?? null, response.status);
}

const asJson = (asked, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(asked),
  signal,
});

/** What a path answers, as JSON. */
export async function get(path, signal) {
  return content(await checked(await sent(path, { signal })));
}

/** What a path answers to this content, as JSON. */
export async function post(path, asked, signal) {
  return content(await checked(await sent(path, asJson(asked, signal))));
}

/** What a path answers to a file; its name goes along. */
export async function upload(path, file, signal) {
  const headers = { "Content-Type": "application/octet-stream", "X-Name": encodeURIComponent(file.name ?? "") };
  const options = { method: "POST", headers, body: file, signal };
  return content(await checked(await sent(path, options)));
}

/** Calls `onPart` with every part of a long answer, as it arrives. Its last part may be an error, which is thrown. */
export async function stream(path, asked, onPart, signal) {
  const response = await checked(await sent(path, asJson(asked, signal)));
  if (response.headers.get("content-type")?.startsWith("application/json")) await content(response); // a mistake, told at once
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      throw lost(error);
    }
    if (piece.done) return;
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const part = JSON.parse(line);
      if (part.part === "error") throw new AskedError(part.error, part.field ?? null, part.status);
      onPart(part);
    }
  }
}
