/** The box for a .env file. Its text outlives the box, because it may be the only copy that a person has. */
export interface Pasted {
  text: string;
  shown: boolean;
  /** Whether the person tried to save without adding the variables of the text. */
  refused: boolean;
}

export const nothingPasted: Pasted = { text: "", shown: false, refused: false };

/** Whether the box has something that is not among the variables yet. */
export const isPasted = ({ text }: Pasted): boolean => text.trim() !== "";

/** The box as it is when a person tries to save without adding its variables. */
export const refusePasted = (pasted: Pasted): Pasted => ({ ...pasted, shown: true, refused: true });

/** The box with lines that could not be read, in addition to what it has. */
export const keepRest = (pasted: Pasted, rest: string): Pasted =>
  rest === ""
    ? pasted
    : { text: pasted.text === "" ? rest : `${pasted.text}\n${rest}`, shown: true, refused: false };
