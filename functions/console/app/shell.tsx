import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { AccountMenu, useMe } from "./account";
import { BillingBanner } from "./organization/banner";
import { PaletteOpener } from "./palette/opener";
import { places } from "./places";
import { href, useRoute } from "./router";
import { SessionEnded } from "./session/ended";
import { Announcements } from "./ui/announce";
import { CopyButton } from "./ui/copy";
import { Icon } from "./ui/icons";

/** What surrounds every page: who is signed in, and the way to the other pages. */
export function Shell({ children }: { children: ComponentChildren }) {
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const here = route.segments[0] ?? "agents";
  const path = pageOf(route.segments);
  useFocusAfterNavigation(main, path);
  const pages = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a narrow page the links are a row that scrolls.
    const link = pages.current?.querySelector<HTMLElement>("[aria-current]");
    pages.current?.scrollTo({ left: (link?.offsetLeft ?? 0) - pages.current.offsetLeft - 16 });
  }, [here]);
  return (
    <div class="shell">
      <button class="skip visually-hidden button" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <a class="brand" href={href(["agents"])}>
          <Icon name="agents" />
          Agents console
        </a>
        <PaletteOpener />
        <div class="account" role="group" aria-label="Account">
          <AccountMenu />
        </div>
      </header>
      <nav class="side" aria-label="Pages" ref={pages}>
        {places.map(({ segment, name, icon }) => (
          <a key={segment} href={href([segment])} aria-current={here === segment ? "page" : undefined}>
            <Icon name={icon} />
            {name}
          </a>
        ))}
        <a href="/docs" target="_blank" rel="noreferrer">
          <Icon name="docs" />
          API reference
          <span class="visually-hidden"> (opens in another tab)</span>
        </a>
      </nav>
      <main class="main" ref={main} tabIndex={-1}>
        <BillingBanner />
        {useMe().organization === null ? <NoOrganization /> : children}
      </main>
      <Announcements />
      <SessionEnded />
    </div>
  );
}

/** The page of a place. The dialog of a new agent is a place on the page of the agents. */
const pageOf = (segments: string[]): string =>
  segments[0] === "agents" && segments[1] === "new" ? "agents" : segments.join("/");

/** How long a page may take until its heading is there. Later ones leave the focus alone. */
const headingTime = 10_000;

/** Moves focus to the heading of another page, as a browser does with a document. */
function useFocusAfterNavigation(main: { current: HTMLElement | null }, path: string): void {
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    scrollTo(0, 0);
    return main.current === null ? undefined : followHeading(main.current);
  }, [path]);
}

/** Moves focus to the heading, also if it is not there yet or is replaced while the page loads. */
function followHeading(main: HTMLElement): () => void {
  const focus = () => (main.querySelector<HTMLElement>("h1") ?? main).focus({ preventScroll: true });
  const loading = new MutationObserver(() => {
    if (document.activeElement === main || document.activeElement === document.body) {
      focus();
    }
  });
  const acted = new AbortController();
  const stop = () => {
    acted.abort();
    loading.disconnect();
    clearTimeout(timer);
  };
  const timer = setTimeout(stop, headingTime);
  for (const event of ["keydown", "pointerdown"]) {
    addEventListener(event, stop, { capture: true, signal: acted.signal });
  }
  focus();
  loading.observe(main, { childList: true, subtree: true });
  return stop;
}

function NoOrganization() {
  const { sub } = useMe();
  return (
    <div class="card empty">
      <h1 tabIndex={-1}>No organization is active</h1>
      <p class="quiet">
        Your session has no organization, and agents belong to one. Choose “Switch user or organization” in the menu at
        the top, or ask an admin to add you.
      </p>
      {sub === null ? null : (
        <p class="row">
          Your user ID for the admin: <code>{sub}</code>
          <CopyButton text={sub} what="user ID" />
        </p>
      )}
    </div>
  );
}
