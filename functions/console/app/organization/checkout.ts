// Remembers in the tab that a person left for the payment provider's page, to say what happened when they return.

import { Store, useStore } from "../store";

export interface Checkout {
  organization: string;
  /** The plan and the interval that were chosen; absent if the person only opened the billing portal. */
  plan?: string;
  interval?: string;
  /** When the person left, in milliseconds since 1970. */
  left: number;
}

const storageKey = "console.checkout";
/** After this time the return has nothing to do with the visit of the provider's page. */
const forgetAfter = 6 * 3_600_000;

const pending = new Store<Checkout | undefined>(stored());

/** When the person came back. A page that the browser kept in memory comes back without being loaded. */
const returned = new Store<number>(Date.now());

addEventListener("pageshow", (event) => {
  if (event.persisted) {
    returned.set(Date.now());
    pending.set(stored());
  }
});

function stored(): Checkout | undefined {
  try {
    const checkout = JSON.parse(sessionStorage.getItem(storageKey) ?? "null") as Checkout | null;
    return checkout !== null && Date.now() - checkout.left < forgetAfter ? checkout : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Leaves for a page of the payment provider. It is done when the person came back to a page that the browser kept in
 * memory: while the provider's page loads, a button that leads to it must not be pressed again.
 */
export function leaveFor(url: string, checkout: Omit<Checkout, "left">): Promise<void> {
  sessionStorage.setItem(storageKey, JSON.stringify({ ...checkout, left: Date.now() }));
  location.assign(url);
  return new Promise((resolve) => addEventListener("pageshow", () => resolve(), { once: true }));
}

/** Forgets the visit, because the person knows what came of it. */
export function forgetCheckout(): void {
  sessionStorage.removeItem(storageKey);
  pending.set(undefined);
}

/** The visit from which the person has returned, if it was for this organization. */
export function useCheckout(organization: string | undefined): Checkout | undefined {
  const checkout = useStore(pending);
  return checkout?.organization === organization ? checkout : undefined;
}

/** When the person came back, in milliseconds since 1970. */
export const useReturned = (): number => useStore(returned);
