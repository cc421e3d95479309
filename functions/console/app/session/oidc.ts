// OpenID Connect: the authorization code flow with PKCE, for a client without a secret.

import { page } from "../page";

/** What the issuer publishes about itself. */
interface Provider {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
  end_session_endpoint?: string;
}

/** A sign-in that waits for the issuer. */
interface Pending {
  verifier: string;
  nonce: string;
  /** The fragment to return to. */
  fragment: string;
}

/** What the issuer grants. */
export interface Grant {
  token: string;
  idToken: string | undefined;
  refreshToken: string | undefined;
  /** When the token expires, in milliseconds since 1970. */
  expires: number | undefined;
}

/** An issuer's refusal. */
export class SignInError extends Error {
  constructor(
    message: string,
    /** The OAuth error code, such as "access_denied". */
    readonly code: string,
    /** Whether the same request may succeed later. */
    readonly temporary = false,
  ) {
    super(message);
    this.name = "SignInError";
  }
}

const pendingKey = (state: string): string => `console.sign-in.${state}`;

let discovered: Promise<Provider> | undefined;

function discover(): Promise<Provider> {
  discovered ??= fetchJSON<Provider>(page.issuer.replace(/\/$/, "") + "/.well-known/openid-configuration").then(
    (provider) => {
      if (provider.issuer !== page.issuer) {
        throw new SignInError("The identity provider names itself differently than this service knows it.", "issuer");
      }
      return provider;
    },
  );
  discovered.catch(() => (discovered = undefined)); // the next sign-in asks again
  return discovered;
}

interface OAuthError {
  error?: string;
  error_description?: string;
}

async function fetchJSON<T>(url: string, init: RequestInit = {}): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, { ...init, credentials: "omit", signal: AbortSignal.timeout(30_000) });
  } catch {
    throw new SignInError(
      "The identity provider could not be reached. Check your connection and try again.",
      "network",
      true,
    );
  }
  const { ok, status } = response;
  const body = (await response.json().catch(() => undefined)) as (T & OAuthError) | undefined;
  if (!ok) {
    const message = body?.error_description ?? `The identity provider answered with status ${status}.`;
    // An answer without an error of OAuth is not from the identity provider, but from a proxy.
    const temporary = status === 408 || status === 429 || status >= 500 || body?.error === undefined;
    throw new SignInError(message, body?.error ?? `http_${status}`, temporary);
  }
  if (body === undefined) {
    throw new SignInError("The identity provider’s answer was cut off. Try again.", "incomplete_answer", true);
  }
  return body;
}

export interface SignInOptions {
  /** Makes the issuer ask, also if it knows the person: to switch the user, the organization or the role. */
  ask?: boolean;
}

/** Prepares a sign-in and returns the issuer's address for it, and its state. */
export async function prepareSignIn(options: SignInOptions = {}): Promise<{ url: string; state: string }> {
  const provider = await discover();
  const state = random();
  const pending: Pending = { verifier: random(), nonce: random(), fragment: location.hash };
  sessionStorage.setItem(pendingKey(state), JSON.stringify(pending));
  const url = new URL(provider.authorization_endpoint);
  const parameters: Record<string, string> = {
    response_type: "code",
    client_id: page.clientID,
    redirect_uri: page.address,
    scope: page.scopes,
    state,
    nonce: pending.nonce,
    code_challenge: await challengeOf(pending.verifier),
    code_challenge_method: "S256",
  };
  if (options.ask) {
    parameters["prompt"] = "select_account";
  }
  for (const [name, value] of Object.entries(parameters)) {
    url.searchParams.set(name, value);
  }
  return { url: url.href, state };
}

/** The fragment from which this tab began the sign-in with a state; undefined if it did not. */
export function originOf(state: string): string | undefined {
  const stored = sessionStorage.getItem(pendingKey(state));
  return stored === null ? undefined : (JSON.parse(stored) as Pending).fragment;
}

export const unknownSignIn = (): SignInError =>
  new SignInError("This sign-in began in another tab, or was finished already. Sign in again.", "state");

/** Finishes a sign-in with the parameters that the issuer added to the page's address. */
export async function finishSignIn(answer: URLSearchParams): Promise<Grant> {
  const state = answer.get("state") ?? "";
  const stored = sessionStorage.getItem(pendingKey(state));
  sessionStorage.removeItem(pendingKey(state));
  if (stored === null) {
    throw unknownSignIn();
  }
  const pending = JSON.parse(stored) as Pending;
  const refusal = answer.get("error");
  if (refusal !== null) {
    throw new SignInError(answer.get("error_description") ?? `The identity provider refused: ${refusal}.`, refusal);
  }
  const issuer = answer.get("iss");
  if (issuer !== null && issuer !== page.issuer) {
    throw new SignInError("Another identity provider answered this sign-in.", "issuer"); // RFC 9207
  }
  const grant = await requestGrant({
    grant_type: "authorization_code",
    code: answer.get("code") ?? "",
    redirect_uri: page.address,
    code_verifier: pending.verifier,
  });
  if (grant.idToken !== undefined && claimsOf(grant.idToken)["nonce"] !== pending.nonce) {
    throw new SignInError("The identity provider answered another sign-in.", "nonce");
  }
  return grant;
}

/** Exchanges a refresh token for a new grant. */
export function refreshGrant(refreshToken: string): Promise<Grant> {
  return requestGrant({ grant_type: "refresh_token", refresh_token: refreshToken });
}

async function requestGrant(parameters: Record<string, string>): Promise<Grant> {
  const provider = await discover();
  const answer = await fetchJSON<{
    access_token: string;
    id_token?: string;
    refresh_token?: string;
    expires_in?: number;
  }>(provider.token_endpoint, {
    method: "POST",
    body: new URLSearchParams({ ...parameters, client_id: page.clientID }),
  });
  // Some providers issue opaque access tokens, which the API cannot verify. Their ID tokens carry the same claims.
  const token = isJWT(answer.access_token) ? answer.access_token : (answer.id_token ?? answer.access_token);
  const seconds = answer.expires_in;
  return {
    token,
    idToken: answer.id_token,
    refreshToken: answer.refresh_token,
    expires: seconds === undefined ? undefined : Date.now() + seconds * 1000,
  };
}

/** The issuer's address that ends its own session and returns to the console; undefined if it has none. */
export async function signOutURL(idToken: string | undefined): Promise<string | undefined> {
  const { end_session_endpoint: end } = await discover();
  if (end === undefined) {
    return undefined;
  }
  const url = new URL(end);
  url.searchParams.set("client_id", page.clientID);
  url.searchParams.set("post_logout_redirect_uri", page.address);
  if (idToken !== undefined) {
    url.searchParams.set("id_token_hint", idToken);
  }
  return url.href;
}

/** Whether two session tokens are of the same user in the same organization. Nothing is known about API keys. */
export function isSameCaller(a: string, b: string): boolean {
  return a === b || (isJWT(a) && isJWT(b) && callerOf(a) === callerOf(b));
}

function callerOf(token: string): string {
  const { sub, o, org_id: organization } = claimsOf(token);
  return JSON.stringify([sub, (o as { id?: string } | undefined)?.id ?? organization]);
}

const isJWT = (token: string): boolean => /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token);

function claimsOf(token: string): Record<string, unknown> {
  const payload = token.split(".")[1] ?? "";
  const bytes = Uint8Array.from(atob(payload.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

async function challengeOf(verifier: string): Promise<string> {
  return base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");
}
