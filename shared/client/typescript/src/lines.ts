import { ConnectionError } from "./error.js";
import type { AnyInit, Transport } from "./transport.js";

/** The media type of a stream of server-sent events. */
export const eventStream = "text/event-stream";

// How many milliseconds a stream of events may send nothing. The API sends a comment every 15 seconds.
const silence = 60_000;

/**
 * Yields the lines of an answer. It cancels the answer when its reader stops, and a stream of events that is silent,
 * because a connection can be lost without an error.
 */
export async function* textLines(
  transport: Transport,
  path: string,
  init: AnyInit,
): AsyncGenerator<string, void, void> {
  const body = (await transport.call("get", path, init)) as ReadableStream<Uint8Array> | null | undefined;
  if (!body) {
    return;
  }
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const dead = init.accept === eventStream ? setTimeout(() => void reader.cancel(), silence) : undefined;
      const { done, value } = await reader
        .read()
        .catch((cause: unknown) => {
          init.signal?.throwIfAborted();
          throw new ConnectionError("GET", path, cause);
        })
        .finally(() => clearTimeout(dead));
      const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = done ? "" : (lines.pop() ?? "");
      if (done && lines.at(-1) === "") {
        lines.pop(); // an empty line would complete an event whose end did not arrive
      }
      for (const line of lines) {
        yield line.endsWith("\r") ? line.slice(0, -1) : line;
      }
      if (done) {
        return;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it has ended already
  }
}

/** A block of a stream of server-sent events. Not every block has data. */
export interface ServerEvent {
  id?: string;
  /** The type; absent for an ordinary message. */
  event?: string;
  data?: string;
  retry?: number;
}

/** Parses server-sent events. It drops an event whose end did not arrive. */
export async function* serverEvents(lines: AsyncIterable<string>): AsyncGenerator<ServerEvent, void, void> {
  let event: ServerEvent = {};
  for await (const line of lines) {
    if (line === "") {
      yield event;
      event = {};
      continue;
    }
    const [, field = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === "data") {
      event.data = event.data === undefined ? value : `${event.data}\n${value}`;
    } else if (field === "id" || field === "event") {
      event[field] = value;
    } else if (field === "retry" && /^\d{1,6}$/.test(value)) {
      event.retry = Number(value);
    }
  }
}
