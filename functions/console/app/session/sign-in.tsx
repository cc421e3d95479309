import type { Me } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { asError } from "../api/errors";
import { call } from "../api/client";
import { page } from "../page";
import { Button } from "../ui/button";
import { Notice } from "../ui/feedback";
import { TextField } from "../ui/field";
import { Icon } from "../ui/icons";
import { goToIssuer } from "./return";
import { beginSession } from "./session";

/** The page for people who have not signed in. */
export function SignIn({ problem }: { problem?: string | undefined }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(problem);
  const signIn = async () => {
    setBusy(true);
    setFailure(undefined);
    try {
      await goToIssuer();
    } catch (error) {
      setFailure(asError(error).message);
      setBusy(false);
    }
  };
  const withIssuer = page.clientID !== "";
  return (
    <main class="door">
      <div class="card stack">
        <span class="brand">
          <Icon name="agents" />
          Agents console
        </span>
        <h1>Sign in</h1>
        {failure === undefined ? null : (
          <Notice tone="bad" live>
            {failure}
          </Notice>
        )}
        {withIssuer ? (
          <Button kind="primary" busy={busy} onClick={() => void signIn()}>
            Continue with {new URL(page.issuer).host}
          </Button>
        ) : (
          <p class="quiet">
            This service has no sign-in page for its console. Use an API key, or a session token of your web app.
          </p>
        )}
        <details open={!withIssuer}>
          <summary>Use an API key or a token</summary>
          <TokenForm />
        </details>
      </div>
    </main>
  );
}

/** Begins a session with a pasted API key or token, if the service accepts it. */
export function TokenForm({ again = false }: { again?: boolean }) {
  const [value, setValue] = useState("");
  const [wrong, setWrong] = useState<string[]>([]);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    const token = value.trim();
    if (token === "") {
      setWrong(["Paste an API key, which begins with so_, or a session token."]);
      return;
    }
    setBusy(true);
    try {
      await check(token);
      beginSession({ kind: "token", token });
    } catch (error) {
      const { code, message } = asError(error);
      setWrong([code === "invalid_token" ? refusalText(token) : message]);
      setBusy(false);
    }
  };
  return (
    <form class="stack" noValidate onSubmit={(event) => void submit(event)}>
      <TextField
        label="API key or session token"
        type="password"
        mono
        value={value}
        onInput={setValue}
        wrong={wrong}
        autofocus={again}
        hint="It stays in this tab, and is gone when you close it."
      />
      <Button type="submit" busy={busy}>
        Use it
      </Button>
    </form>
  );
}

const refusalText = (token: string): string =>
  `This ${token.startsWith("so_") ? "key" : "token"} is not valid. It may be mistyped, expired or revoked.`;

/** Asks the service who the token belongs to. */
async function check(token: string): Promise<Me> {
  const answer = await call<Me>("/api/v1/me", { token });
  return answer.data;
}
