import { Icon } from "../ui/icons";

/** What is wrong with a row of a form. */
export function Wrong({ sentences, id }: { sentences: string[]; id?: string }) {
  if (sentences.length === 0) {
    return null;
  }
  return (
    <span class="stack-tight wrongs" id={id}>
      {sentences.map((sentence) => (
        <span class="wrong" key={sentence}>
          <Icon name="error" />
          {sentence}
        </span>
      ))}
    </span>
  );
}
