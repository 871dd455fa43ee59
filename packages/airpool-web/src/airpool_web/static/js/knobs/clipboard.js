// The clipboard, where the browser allows it.

/** Whether a text is now in the clipboard. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
