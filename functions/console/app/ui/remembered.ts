import { useState } from "preact/hooks";
import { onSignOut } from "../session/session";

const prefix = "console.choice.";

/** A choice that lasts as long as the tab and the session of its person. */
export function useRemembered(name: string): [boolean, (next: boolean) => void] {
  const [value, setValue] = useState(() => sessionStorage.getItem(prefix + name) === "1");
  return [
    value,
    (next) => {
      sessionStorage.setItem(prefix + name, next ? "1" : "0");
      setValue(next);
    },
  ];
}

onSignOut(() => Object.keys(sessionStorage).filter((key) => key.startsWith(prefix)).forEach((key) =>
  sessionStorage.removeItem(key)));
