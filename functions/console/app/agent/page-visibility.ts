/** How long a page may be hidden before it counts as forgotten. */
const patience = 5 * 60_000;

/** Tells whether a person may look at the page, so that a forgotten tab does not keep a connection from others. */
export class PageVisibility {
  private timer: number | undefined;
  private controller = new AbortController();

  /** Begins to follow whether the page is hidden. */
  watch(): void {
    document.addEventListener("visibilitychange", this.onChange);
    this.onChange();
  }

  get isLost(): boolean {
    return this.controller.signal.aborted;
  }

  /** Aborts when the page has been hidden for too long. */
  lost(): AbortSignal {
    return this.controller.signal;
  }

  /** Waits until the page is not forgotten, or until stop. */
  async wanted(stop: AbortSignal): Promise<void> {
    if (!this.isLost) {
      return;
    }
    if (document.visibilityState === "hidden") { // a reader that paused may come after the person is back
      await new Promise<void>((resolve) => {
        document.addEventListener("visibilitychange", () => resolve(), { once: true, signal: stop });
        stop.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    this.controller = new AbortController();
  }

  close(): void {
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onChange);
  }

  private readonly onChange = () => {
    clearTimeout(this.timer);
    if (document.visibilityState === "hidden") {
      this.timer = setTimeout(() => this.controller.abort(), patience);
    }
  };
}
