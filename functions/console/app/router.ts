import { useEffect } from "preact/hooks";
import { Store, useStore } from "./store";

/** Where in the console a person is. The fragment of the address holds it, so it never reaches the service's logs. */
export interface Route {
  /** The segments of the path, such as ["agents", "4f1c…", "logs"]. */
  segments: string[];
  query: URLSearchParams;
}

function parse(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#/, "").split("?", 2);
  const segments = path.split("/").filter((segment) => segment !== "");
  return { segments: segments.map(decode), query: new URLSearchParams(query) };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const route = new Store<Route>(parse(location.hash));

addEventListener("hashchange", () => route.set(parse(location.hash)));

export function useRoute(): Route {
  return useStore(route);
}

/** The address of a place. Segments are escaped, and empty query values are left out. */
export function href(segments: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const search = new URLSearchParams(given).toString();
  return "#/" + segments.map(encodeURIComponent).join("/") + (search === "" ? "" : "?" + search);
}

/** Goes to a place. The back button returns, unless the place replaces this one. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  if (options.replace) {
    history.replaceState(null, "", to);
    route.set(parse(location.hash));
  } else {
    location.hash = to;
  }
}

/** Names the page in the browser's tabs and history. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title === "" ? "Agents console" : `${title} · Agents console`;
  }, [title]);
}
