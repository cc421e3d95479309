import { ConnectionError } from "./error.js";
import type { AnyInit, Transport } from "./transport.js";

/** The media type of a stream of server-sent events. */
export const eventStream = "text/event-stream";

// How many milliseconds a stream of events may send nothing. The API sends a comment every 15 seconds.
const silence = 60_000;

/** Yields the lines of an answer. A stream of events that is silent ends, because a connection can be lost quietly. */
export function textLines(transport: Transport, path: string, init: AnyInit): AsyncGenerator<string, void, void> {
  const patience = init.accept === eventStream ? silence : undefined;
  return received(transport, path, init, (body) => linesOf(body, patience, init.signal));
}

/** Yields what read makes of the body of an answer. A body that breaks off throws a ConnectionError. */
export async function* received<T>(
  transport: Transport,
  path: string,
  init: AnyInit,
  read: (body: Body) => AsyncGenerator<T, void, void>,
): AsyncGenerator<T, void, void> {
  const body = (await transport.call("get", path, init)) as Body;
  try {
    yield* read(body);
  } catch (cause) {
    init.signal?.throwIfAborted();
    throw new ConnectionError("GET", path, cause);
  }
}

/** Yields the lines of a body as they arrive. It ends the body as partsOf does. */
export async function* linesOf(
  body: Body,
  patience?: number,
  signal?: AbortSignal,
): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const part of partsOf(body, patience, signal)) {
    const lines = (rest + decoder.decode(part, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      yield withoutReturn(line);
    }
  }
  rest += decoder.decode();
  if (rest !== "") {
    yield withoutReturn(rest); // an empty line would complete an event whose end did not arrive
  }
}

type Body = Response["body"] | undefined;

/**
 * Yields the parts of a body as they arrive. It cancels the body when its reader stops, and after this many
 * milliseconds without a part. When the signal is aborted, it throws the reason: the signal of a Request has no effect
 * once the Request is collected as garbage. Not every browser can iterate over a body itself.
 */
export async function* partsOf(
  body: Body,
  patience?: number,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const reader = body?.getReader();
  const cancel = () => reader?.cancel().catch(() => undefined); // it may have ended already
  signal?.addEventListener("abort", cancel);
  try {
    while (reader) {
      const dead = patience === undefined ? undefined : setTimeout(cancel, patience);
      const { done, value } = await reader.read().finally(() => clearTimeout(dead));
      signal?.throwIfAborted(); // a canceled body ends without an error
      if (done) {
        return;
      }
      yield value;
    }
  } finally {
    signal?.removeEventListener("abort", cancel);
    await cancel();
  }
}

const withoutReturn = (line: string): string => (line.endsWith("\r") ? line.slice(0, -1) : line);

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
