// Readers of answers that come line by line: JSON lines, and Server-Sent Events.

/** Reads the parts of a body as they arrive. Not every browser can iterate over a body itself. */
export async function* readParts(body: Response["body"]) {
  if (body === null) {
    return;
  }
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      yield value;
    }
  } finally {
    void reader.cancel().catch(() => undefined); // the caller has ended it, or it is broken
  }
}

/** Reads the lines of a body in batches, as they arrive. What follows the last end of line is a line, too. */
async function* readLines(body: Response["body"]): AsyncGenerator<string[]> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const part of readParts(body)) {
    const lines = (rest + decoder.decode(part, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield lines;
  }
  rest += decoder.decode();
  if (rest !== "") {
    yield [rest];
  }
}

/** Reads the values of a body of JSON lines in batches. */
export async function* readJSONLines<T>(body: Response["body"]): AsyncGenerator<T[]> {
  for await (const lines of readLines(body)) {
    yield lines.filter((line) => line !== "").map((line) => parse<T>(line));
  }
}

export interface ServerEvent<T> {
  /** The position after the event, from which a later call continues; empty if it has none. */
  id: string;
  data: T;
}

/** Reads the events of a body in batches. A batch without events shows that the connection works. */
export async function* readEvents<T>(body: Response["body"]): AsyncGenerator<ServerEvent<T>[]> {
  let id = "";
  let data: string[] = [];
  for await (const lines of readLines(body)) {
    const events: ServerEvent<T>[] = [];
    for (const line of lines) {
      if (line === "" && data.length > 0) {
        events.push({ id, data: parse<T>(data.join("\n")) });
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(valueOf(line));
      } else if (line.startsWith("id:")) {
        id = valueOf(line);
      }
    }
    yield events;
  }
}

const valueOf = (line: string): string => line.slice(line.indexOf(":") + 1).replace(/^ /, "");

function parse<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Error("The service’s answer was cut off. Try again.");
  }
}
