import { secretRule } from "./secret-rule";

// The service's rule of what looks like a secret, so that a value is masked before it is sent. The words and forms are
// generated from the service's; a test compares the outcomes.

const { words } = secretRule;
const harmless = new RegExp(words.harmless.join("|"), "gu");
const openAIKey = new RegExp(secretRule.openai_key.source, secretRule.openai_key.flags + "g");
const forms = secretRule.forms.map(({ source, flags }) => new RegExp(source, flags));

/** Whether the service puts the value of a new variable in the secret store. */
export const isSecret = (key: string, value: string): boolean => looksSecret(key) || looksSecretValue(value);

/** Whether a key is named like a secret. */
export function looksSecret(key: string): boolean {
  const camel = splitWords(key.replace(/([a-z0-9])([A-Z])/g, "$1_$2"));
  const plain = splitWords(key); // finds words in spellings such as PassWord
  const counts = [...camel, ...plain].some((word) => words.counting.includes(word));
  return anySecretWord(camel, counts) || anySecretWord(plain, counts);
}

/** Whether a value has the form of a secret, such as a key of a known service or a URL with a password. */
export function looksSecretValue(value: string): boolean {
  const keys = value.match(openAIKey) ?? [];
  return keys.some((key) => /[0-9]/.test(key)) || forms.some((form) => form.test(value));
}

function splitWords(key: string): string[] {
  const parts = key.toUpperCase().split("_");
  return parts.map((part) => part.replace(/[0-9]+$/, "")).filter((word) => word !== "");
}

function anySecretWord(found: string[], counts: boolean): boolean {
  return found.some((word, i) => {
    const before = found[i - 1] ?? "";
    const last = i === found.length - 1;
    return secretAnywhere(word, counts) || secretKey(before, word) || (last && secretAtEnd(before, word));
  });
}

function secretAnywhere(word: string, counts: boolean): boolean {
  if (words.whole.includes(word)) {
    return true;
  }
  const named = word.replace(harmless, "");
  const rest = counts ? named.replaceAll("TOKENS", "") : named;
  return words.inside.some((name) => rest.includes(name));
}

function secretKey(before: string, word: string): boolean {
  const singular = word.replace(/S$/, "");
  const name = singular === "KEY" ? before + singular : singular;
  return name.endsWith("KEY") && words.keys.some((kind) => name.slice(0, -"KEY".length).endsWith(kind));
}

function secretAtEnd(before: string, word: string): boolean {
  if (words.last.includes(word)) {
    return true;
  }
  if (words.last_of_several.includes(word)) {
    return before !== "";
  }
  const user = /^(.*?)(?:PASS|PWD)$/.exec(word)?.[1];
  return user !== undefined && words.users.includes(user);
}
