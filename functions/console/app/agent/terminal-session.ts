import { terminalProtocols } from "@agents.example/client/terminal";
import { call } from "../api/client";
import { asError, CallError } from "../api/errors";
import { tokenForCall } from "../session/session";
import { agentPath } from "./paths";

/** The first byte of a message. */
const channel = { input: 0, output: 1, errors: 2, status: 3, resize: 4, shown: 5 } as const;
/** The service takes larger messages, but holds one of each terminal. */
const largest = 32 << 10;
/**
 * With this subprotocol, the service waits for what the page has shown. A page gets whatever arrives at its WebSocket,
 * and a program can print faster than the page can show.
 */
const paced = "paced.v5.channel";
/** How many bytes are shown before the service learns it: much less than it lets a page hold. */
const shownAtLeast = 32 << 10;

export interface TerminalEvents {
  onOpen: () => void;
  /** shown must be called when the output has been shown. */
  onOutput: (bytes: Uint8Array, shown: () => void) => void;
  /** The end, in words. */
  onEnd: (reason: string) => void;
}

/** A terminal in an agent's container. */
export class TerminalSession {
  private socket: WebSocket | undefined;
  private opened = false;
  private over = false;
  /** Bytes that were shown, and that the service does not know of. */
  private shown = 0;
  private reason: string | undefined;

  constructor(private readonly agentID: string, private readonly events: TerminalEvents) {
    void this.connect();
  }

  private async connect(): Promise<void> {
    const token = await tokenForCall().catch((error: unknown) => this.end(asError(error).message));
    if (token === undefined || this.over) {
      return;
    }
    const url = new URL(`${agentPath(this.agentID)}/terminal`, location.origin);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url, [paced, ...terminalProtocols(token)]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.opened = true;
      this.events.onOpen();
    };
    socket.onmessage = (message) => this.read(new Uint8Array(message.data as ArrayBuffer));
    socket.onclose = (closed) => void this.closed(closed.reason);
    this.socket = socket;
  }

  private read(message: Uint8Array): void {
    const bytes = message.subarray(1);
    switch (message[0]) {
      case channel.output:
      case channel.errors:
        this.events.onOutput(bytes, () => this.tellShown(bytes.length));
        break;
      case channel.status: {
        const status = JSON.parse(new TextDecoder().decode(bytes)) as { status: string; message?: string };
        this.reason = status.status === "Success" ? "The shell has ended." : (status.message ?? "The shell failed.");
        break;
      }
    }
  }

  private tellShown(bytes: number): void {
    this.shown += bytes;
    if (this.shown >= shownAtLeast && this.socket?.protocol === paced) {
      this.send(channel.shown, new TextEncoder().encode(String(this.shown)));
      this.shown = 0;
    }
  }

  private async closed(reason: string): Promise<void> {
    if (this.reason === undefined && reason === "" && !this.opened && !this.over) {
      this.end(await this.refusal());
      return;
    }
    const lost = "The connection was lost. What ran in the terminal may have ended; its output since then is lost.";
    this.end(this.reason ?? (reason === "" ? lost : reason));
  }

  /** Browsers do not show why a WebSocket was refused, so the same request is sent without one. */
  private async refusal(): Promise<string> {
    try {
      await call(`${agentPath(this.agentID)}/terminal`);
    } catch (error) {
      if (error instanceof CallError && error.code !== "websocket_required") {
        return error.message;
      }
    }
    return "The terminal could not be opened. Try again.";
  }

  private end(reason: string): void {
    if (!this.over) {
      this.over = true;
      this.events.onEnd(reason);
    }
  }

  write(text: string): void {
    const bytes = new TextEncoder().encode(text);
    for (let sent = 0; sent < bytes.length; sent += largest) {
      this.send(channel.input, bytes.subarray(sent, sent + largest));
    }
  }

  resize(columns: number, rows: number): void {
    this.send(channel.resize, new TextEncoder().encode(JSON.stringify({ Width: columns, Height: rows })));
  }

  private send(to: number, bytes: Uint8Array): void {
    if (this.socket?.readyState === WebSocket.OPEN) {
      const message = new Uint8Array(bytes.length + 1);
      message[0] = to;
      message.set(bytes, 1);
      this.socket.send(message);
    }
  }

  close(): void {
    this.over = true;
    this.socket?.close(1000);
  }
}
