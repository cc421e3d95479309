import type { Agent } from "@agents.example/client/schema";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { TextField } from "../ui/field";

/** A field for the agent's name. To type it makes sure that it is the right agent: only then, confirm confirms. */
export function useTypedName(agent: Agent, then: () => Promise<void>): { field: JSX.Element; confirm: () => void } {
  const [typed, setTyped] = useState("");
  const [wrong, setWrong] = useState<string[]>([]);
  const field = (
    <TextField
      label={
        <>
          Type <code>{agent.name}</code> to confirm
        </>
      }
      value={typed}
      wrong={wrong}
      autofocus
      onInput={(value) => {
        setTyped(value);
        setWrong([]);
      }}
    />
  );
  const confirm = () => {
    if (typed.trim() === agent.name) {
      void then();
    } else {
      setWrong(["This is not the name of the agent."]);
    }
  };
  return { field, confirm };
}
