import { useEffect, useReducer } from "preact/hooks";

/** A value that components follow. */
export class Store<T> {
  private readonly followers = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (Object.is(value, this.current)) {
      return;
    }
    this.current = value;
    for (const follower of [...this.followers]) {
      follower(value);
    }
  }

  follow(follower: (value: T) => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

/** The value of a store. The component renders again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [, render] = useReducer<number, void>((count) => count + 1, 0);
  const rendered = store.value;
  useEffect(() => {
    if (!Object.is(store.value, rendered)) {
      render(); // it changed before this effect ran
    }
    return store.follow(() => render());
    // Only a change of the store needs another subscription.
  }, [store]);
  return rendered;
}
