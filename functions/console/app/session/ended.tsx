import { useEffect, useRef, useState } from "preact/hooks";
import { asError } from "../api/errors";
import { page } from "../page";
import { useStore } from "../store";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/feedback";
import { signInElsewhere } from "./return";
import { ended, endSession, session } from "./session";
import { TokenForm } from "./sign-in";

/** Asks a person to sign in again over the page, which keeps everything that was typed. */
export function SessionEnded() {
  const shown = useStore(ended);
  return shown ? <AskAgain /> : null;
}

function AskAgain() {
  const [opened, setOpened] = useState(false);
  const [failure, setFailure] = useState<string>();
  const attempt = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => attempt.current?.abort(), []);
  const pasted = session.value?.kind === "token";
  const signIn = async () => {
    attempt.current?.abort(); // its window may have been closed, which this page cannot see
    const current = new AbortController();
    attempt.current = current;
    setOpened(true);
    setFailure(undefined);
    try {
      await signInElsewhere(current.signal);
    } catch (error) {
      if (!current.signal.aborted) {
        setFailure(asError(error).message);
        setOpened(false);
      }
    }
  };
  return (
    <Dialog
      title="Your session has ended"
      onClose={endSession}
      typed
      foot={
        <Button kind="plain" onClick={endSession}>
          Sign out
        </Button>
      }
    >
      <p>
        {pasted
          ? "The service does not accept your key or token any more. Paste another one to go on. "
          : "Sign in again to go on. "}
        What you typed is still there, unless you sign in as another user or for another organization.
      </p>
      {failure === undefined ? null : (
        <Notice tone="bad" live>
          {failure}
        </Notice>
      )}
      {page.clientID === "" ? null : (
        <Button kind={pasted ? "normal" : "primary"} icon="external" onClick={() => void signIn()}>
          {opened ? "Open the sign-in window again" : "Sign in again"}
        </Button>
      )}
      {pasted || page.clientID === "" ? <TokenForm again /> : null}
    </Dialog>
  );
}
