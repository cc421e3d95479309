import type { AnyInit, Transport } from "./transport.js";
import type { Arguments, Item, ListPath, OperationOf } from "./types.js";

/** Reads lists that come in pages. A page is requested when it is needed. */
export interface Listing {
  /** Yields the pages of a list, from the one that the query asks for. */
  pages<P extends ListPath>(path: P, ...init: Arguments<OperationOf<P, "get">>): AsyncGenerator<Item<P>[], void, void>;
  /** Yields the items of all pages. */
  items<P extends ListPath>(path: P, ...init: Arguments<OperationOf<P, "get">>): AsyncGenerator<Item<P>, void, void>;
}

export function pagesOf({ call }: Transport): Listing {
  async function* pages(path: string, init: AnyInit = {}): AsyncGenerator<unknown[], void, void> {
    let { params = {} } = init;
    for (let next: string | null = "first"; next !== null; ) {
      yield (await call("get", path, {
        ...init,
        params,
        onResponse: (response) => {
          next = response.headers.get("X-Next-Cursor") || null;
          init.onResponse?.(response);
        },
      })) as unknown[];
      params = { ...params, query: { ...params.query, cursor: next } };
    }
  }
  async function* items(path: string, init?: AnyInit): AsyncGenerator<unknown, void, void> {
    for await (const page of pages(path, init)) {
      yield* page;
    }
  }
  return { pages, items } as unknown as Listing;
}
