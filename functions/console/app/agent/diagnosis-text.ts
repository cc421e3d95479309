// Turns the words of the API's diagnosis into those of the page, whose buttons and times say some of it already.

/** A fact as a sentence. A time stands at its end. */
export interface Fact {
  text: string;
  /** As the API has it. */
  at?: string;
}

/** What evidence says in a sentence, by its key. Evidence that the page shows elsewhere has none. */
const sentences: Record<string, (value: string) => string | Fact | undefined> = {
  "status": () => undefined,
  "stage": () => undefined,
  "status reason": () => undefined,
  "organization status": () => undefined,
  "error code": () => undefined,
  "stage of the change": () => undefined,
  "last problem": () => undefined,
  "restarts": () => undefined, // the health figures count them
  "exit code": (code) => `Its container ended with exit code ${code}`,
  "reason": (reason) => (reason in reasons ? reasons[reason] : `The cluster calls it ${reason}`),
  "failed attempts": (count) => `${count} attempts failed`,
  "no machine has enough of": (what) => `No machine has enough of: ${what}`,
  "not ready since": (time) => ({ text: "It has not been ready since", at: time }),
  "secret operation": (id) => `The operation is ${id}`,
};

/** Reasons that say more than the title. The cluster has others that say the same, such as ErrImagePull. */
const reasons: Record<string, string | undefined> = {
  OOMKilled: "The cluster ended it, because it used more memory than its plan has",
  Evicted: "The cluster ended it, because it wrote too many temporary files",
  Error: undefined,
  ErrImagePull: undefined,
  ImagePullBackOff: undefined,
  CrashLoopBackOff: undefined,
};

const moment = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

/** The evidence of a cause as sentences, without what the page shows elsewhere. */
export const factsOf = (evidence: string[]): Fact[] =>
  evidence.flatMap((text) => {
    const [, key = "", value = ""] = /^([^:]+): (.*)$/s.exec(text) ?? [];
    const known = key in sentences ? sentences[key]?.(value) : moment.test(value) ? { text: key, at: value } : text;
    const fact = typeof known === "string" ? { text: known } : known;
    return fact === undefined ? [] : [{ ...fact, text: capital(fact.text) }];
  });

/** How advice begins. */
const advice =
  /^(?:Check|Choose|Contact|Look|Lower|Make|Raise|Read|Reduce|Remove|Restart|Set|Start|Try|Use|Wait)\b/;

/** What a message says in addition to the title above it and the advice below it. */
export function newIn(message: string, title: string, advised: boolean): string {
  const [first = "", ...others] = (message.match(/.+?(?:[.!?](?=\s|$)|$)\s*/gs) ?? []).map((one) => one.trim());
  const rest = first.startsWith(title)
    ? capital(first.slice(title.length).replace(/^[\s:,.]+/, ""))
    : shared(first, title) > sameEnough ? "" : first;
  return [rest, ...others].filter((one) => one !== "" && !(advised && advice.test(one))).join(" ");
}

/** From this share of common words on, a sentence says nothing that the title does not say. */
const sameEnough = 0.75;

/** Which part of the words of a sentence a title has. */
function shared(sentence: string, title: string): number {
  const known = title.toLowerCase().split(" ");
  const words = sentence.toLowerCase().replace(/[.!?]$/, "").split(" ");
  return words.filter((word) => known.includes(word)).length / words.length;
}

const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);

/** A step with the name of the button that the page has for it. */
export function stepWith(text: string, action: string): string {
  switch (action) {
    case "start":
      return text.replace(/\b(r|R)estart\b/g, (_, r: string) => (r === "R" ? "Start" : "start"));
    case "restart":
      return text.replace(/\b(s|S)tart (it|the agent)(?: again)?/g, (_, s: string, what: string) =>
        `${s === "S" ? "R" : "r"}estart ${what}`);
    default:
      return text;
  }
}
