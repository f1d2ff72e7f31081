/** Copying to the clipboard, also where the page is not served over https. */

import type { Session } from "../session";

export async function copy(session: Session, text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    if (!isDone) {
      session.say("The browser refused to copy.", true);
      return;
    }
  }
  session.say(`Copied ${what}.`);
}
