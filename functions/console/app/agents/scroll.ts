import { useEffect } from "preact/hooks";

interface Kept {
  scroll: number;
  id: string;
}

/** Notes in the history where the list is, before a person opens an agent. */
export function keepPlace(id: string): void {
  history.replaceState({ scroll: scrollY, id } satisfies Kept, "");
}

/** Returns to the place in the list, and to the agent, that a person left with the list. */
export function useReturn(loaded: boolean): void {
  useEffect(() => {
    const kept = history.state as Kept | null;
    if (!loaded || kept === null) {
      return;
    }
    // The shell moves to the heading first.
    const timer = setTimeout(() => {
      scrollTo(0, kept.scroll);
      requestAnimationFrame(() =>
        requestAnimationFrame(() =>
          document.querySelector<HTMLElement>(`[data-key="${CSS.escape(kept.id)}"] a`)?.focus({ preventScroll: true }),
        ),
      );
    });
    return () => clearTimeout(timer);
  }, [loaded]);
}
