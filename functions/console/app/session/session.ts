import { Store } from "../store";
import { unanswered } from "../api/errors";
import { type Grant, finishSignIn, refreshGrant, SignInError } from "./oidc";

/** Who uses the console: a token, and how to renew it. It lives as long as the tab. */
export interface Session {
  /** A token from the issuer, or one that a person pasted. */
  kind: "oidc" | "token";
  token: string;
  idToken?: string;
  refreshToken?: string;
  /** When the token expires, in milliseconds since 1970. */
  expires?: number;
}

const storageKey = "console.session";

export const session = new Store<Session | undefined>(stored());

/** Set while calls wait for the person to sign in again. */
export const ended = new Store<boolean>(false);

function stored(): Session | undefined {
  try {
    return (JSON.parse(sessionStorage.getItem(storageKey) ?? "null") as Session | null) ?? undefined;
  } catch {
    return undefined;
  }
}

function save(next: Session | undefined): void {
  if (next === undefined) {
    sessionStorage.removeItem(storageKey);
  } else {
    sessionStorage.setItem(storageKey, JSON.stringify(next));
  }
  session.set(next);
}

/** Calls a function whenever a session ends, to forget what its person saw and typed. */
export function onSignOut(forget: () => void): void {
  session.follow((next) => {
    if (next === undefined) {
      forget();
    }
  });
}

export function beginSession(next: Session): void {
  save(next);
  ended.set(false);
  for (const waiting of waiters.splice(0)) {
    waiting.resolve();
  }
}

/** Ends the session. Calls that wait for a new one fail. */
export function endSession(): void {
  save(undefined);
  ended.set(false);
  for (const waiting of waiters.splice(0)) {
    waiting.reject(signedOut());
  }
}

const signedOut = (): SignInError => new SignInError("You signed out.", "signed_out");

export function sessionOf(grant: Grant, previous?: Session): Session {
  const next: Session = { kind: "oidc", token: grant.token };
  const refreshToken = grant.refreshToken ?? previous?.refreshToken;
  const idToken = grant.idToken ?? previous?.idToken;
  if (refreshToken !== undefined) {
    next.refreshToken = refreshToken;
  }
  if (idToken !== undefined) {
    next.idToken = idToken;
  }
  if (grant.expires !== undefined) {
    next.expires = grant.expires;
  }
  return next;
}

/** Finishes a sign-in. An aborted one begins no session. */
export async function finish(answer: URLSearchParams, signal?: AbortSignal): Promise<void> {
  const grant = await finishSignIn(answer);
  signal?.throwIfAborted();
  beginSession(sessionOf(grant));
}

const tabKey = "console.tab";

/**
 * Leaves the refresh token to the tab that got it. Browsers copy the storage of a tab that is duplicated, and an issuer
 * ends the session when two tabs use one refresh token.
 */
export async function claimSession(): Promise<void> {
  const name = sessionStorage.getItem(tabKey) ?? crypto.randomUUID();
  if (await holdLock(name)) {
    sessionStorage.setItem(tabKey, name);
    return;
  }
  const own = crypto.randomUUID();
  sessionStorage.setItem(tabKey, own);
  await holdLock(own);
  if (session.value?.refreshToken !== undefined) {
    const { refreshToken: _, ...rest } = session.value;
    save(rest);
  }
}

/** Holds a lock as long as the tab is open. It is false if another tab holds it. */
function holdLock(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    void navigator.locks.request(name, { ifAvailable: true }, (lock) => {
      resolve(lock !== null);
      return lock === null ? undefined : new Promise<never>(() => undefined);
    });
  });
}

interface Waiter {
  resolve: () => void;
  reject: (error: unknown) => void;
}

const waiters: Waiter[] = [];
let renewing: Promise<void> | undefined;

/** Tokens are renewed this long before they expire, so that few calls are refused. */
const early = 5_000;

/** The token for a call. It renews one that is about to expire, and rejects if there is no session. */
export async function tokenForCall(): Promise<string> {
  const current = session.value;
  if (current?.refreshToken !== undefined && (current.expires ?? Infinity) - Date.now() < early) {
    await renewSession(current.token);
  }
  if (session.value === undefined) {
    throw signedOut();
  }
  return session.value.token;
}

/**
 * Replaces a token that the service refused. It waits for the person if the issuer does not renew it, or if the service
 * refused a renewed token too.
 */
export async function renewSession(refused: string, renewed = false): Promise<void> {
  const current = session.value;
  if (current === undefined) {
    throw signedOut();
  }
  if (current.token !== refused) {
    return; // another call renewed it
  }
  renewing ??= (renewed ? askPerson() : renew(current)).finally(() => (renewing = undefined));
  await renewing;
}

async function renew(current: Session): Promise<void> {
  const grant = current.refreshToken === undefined ? undefined : await refresh(current.refreshToken);
  if (session.value !== current) {
    throw signedOut(); // the grant is of a session that has ended
  }
  if (grant === undefined) {
    await askPerson();
  } else {
    save(sessionOf(grant, current));
  }
}

/** The new grant, or undefined if the issuer refuses it. It rejects if another attempt may succeed. */
async function refresh(refreshToken: string): Promise<Grant | undefined> {
  try {
    return await refreshGrant(refreshToken);
  } catch (error) {
    if (!(error instanceof SignInError)) {
      throw error;
    }
    if (error.temporary) {
      throw unanswered("issuer_unavailable", error.message);
    }
    return undefined;
  }
}

async function askPerson(): Promise<void> {
  ended.set(true);
  await new Promise<void>((resolve, reject) => waiters.push({ resolve, reject }));
}
