import { causeTexts } from "./cause-texts";

export interface CauseText {
  title: string;
  /** What a person can do, most promising first. */
  youCan: string[];
}

/** What the service says about an error code, where no diagnosis is read. An unknown code gets a general text. */
export function causeText(code: string): CauseText {
  const known = causeTexts[code];
  return known === undefined
    ? { title: "The agent has a problem", youCan: ["Read its log.", "Contact support if the problem stays."] }
    : { title: known.title, youCan: known.you_can };
}
