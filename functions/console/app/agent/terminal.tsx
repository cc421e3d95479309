import type { Agent } from "@agents.example/client/schema";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef, useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { Button } from "../ui/button";
import { Notice } from "../ui/feedback";
import { allowTerminalStyles } from "./terminal-document";
import { TerminalSession } from "./terminal-session";

/** A shell in the agent's container. */
export function TerminalTab({ agent }: { agent: Agent }) {
  const readOnly = useReadOnly();
  return (
    <section class="stack" aria-labelledby="terminal-heading">
      {readOnly === undefined ? <Screen agent={agent} /> : <ForAdmins />}
    </section>
  );
}

function ForAdmins() {
  return (
    <>
      <h2 id="terminal-heading">Terminal</h2>
      <Notice tone="idle" title="Only admins can open a terminal">
        <p>A terminal can read and change all that the agent has.</p>
      </Notice>
    </>
  );
}

type State = { kind: "connecting" | "open" } | { kind: "ended"; reason: string };

function Screen({ agent }: { agent: Agent }) {
  const [attempt, setAttempt] = useState(0);
  const [state, setState] = useState<State>({ kind: "connecting" });
  const element = useRef<HTMLDivElement>(null);
  const screen = useRef<Terminal | undefined>(undefined);
  const session = useRef<TerminalSession | undefined>(undefined);
  useEffect(() => {
    const target = element.current;
    if (target === null) {
      return;
    }
    const forbidStyles = allowTerminalStyles();
    const terminal = new Terminal({
      cursorBlink: false, screenReaderMode: true, scrollback: 5000,
      fontFamily: "ui-monospace, monospace", fontSize: 13, theme: { background: "#10141a", foreground: "#e6e9ee" },
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(target);
    // Tab belongs to the shell, so another key must lead out of the terminal.
    terminal.attachCustomKeyEventHandler((event) => !(event.key === "Tab" && event.shiftKey));
    terminal.onData((text) => session.current?.write(text));
    terminal.onResize(({ cols, rows }) => session.current?.resize(cols, rows));
    const resized = new ResizeObserver(() => fit.fit());
    resized.observe(target);
    screen.current = terminal;
    return () => {
      resized.disconnect();
      terminal.dispose();
      forbidStyles();
      screen.current = undefined;
    };
  }, []);
  useEffect(() => {
    setState({ kind: "connecting" });
    const opened = new TerminalSession(agent.id, {
      onOpen: () => {
        const terminal = screen.current;
        setState({ kind: "open" });
        opened.resize(terminal?.cols ?? 80, terminal?.rows ?? 24);
        terminal?.focus();
      },
      onOutput: (bytes, shown) => screen.current?.write(bytes, shown),
      onEnd: (reason) => setState({ kind: "ended", reason }),
    });
    session.current = opened;
    return () => opened.close();
  }, [agent.id, attempt]);
  const again = () => {
    screen.current?.write("\r\n--- another shell ---\r\n");
    setAttempt(attempt + 1);
  };
  return (
    <>
      <div class="page-head">
        <h2 id="terminal-heading">Terminal</h2>
        <span class="small quiet" role="status">
          {state.kind === "connecting" ? "Connecting …" : state.kind === "open" ? "Connected" : "Ended"}
        </span>
      </div>
      {state.kind === "ended" ? (
        <Notice tone="warn" live actions={<Button icon="refresh" onClick={again}>Open another shell</Button>}>
          {state.reason}
        </Notice>
      ) : null}
      <div class="terminal-screen" ref={element} />
      <p class="small quiet">
        A shell in the agent’s container. It ends after 15 minutes without input and output, and after 59 minutes.
        Shift+Tab leaves the terminal. The audit log has when it was opened and closed, not what was typed.
      </p>
    </>
  );
}
