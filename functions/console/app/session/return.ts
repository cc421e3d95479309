// What the address of the page says when the issuer sends a person to the console.

import { page } from "../page";
import { originOf, prepareSignIn, type SignInOptions, unknownSignIn } from "./oidc";
import { finish } from "./session";

/** The name under which a window that only signs in passes on the issuer's answer. */
const channelOf = (state: string): string => `console.sign-in.${state}`;

export type Arrival =
  /** The person came by themselves. */
  | { kind: "visit" }
  /** The issuer finished a sign-in of this tab. */
  | { kind: "signed-in" }
  /** The issuer asks the console to start a sign-in. */
  | { kind: "sign-in" }
  /** This window asked the issuer for another one, and can be closed. */
  | { kind: "done"; refused: boolean };

/** Reads and removes the parameters in the address. */
export async function arrive(): Promise<Arrival> {
  const parameters = new URLSearchParams(location.search);
  if (location.search === "") {
    return { kind: "visit" };
  }
  history.replaceState(null, "", location.pathname + location.hash);
  const state = parameters.get("state");
  if (state !== null) {
    const fragment = originOf(state);
    if (fragment === undefined) {
      if (!(await passOn(state, parameters.toString()))) {
        throw unknownSignIn();
      }
      window.close();
      return { kind: "done", refused: parameters.has("error") };
    }
    history.replaceState(null, "", location.pathname + fragment); // also if the issuer refuses
    dispatchEvent(new HashChangeEvent("hashchange"));
    await finish(parameters);
    return { kind: "signed-in" };
  }
  // OpenID Connect Core, section 4: a third party starts the sign-in.
  return parameters.get("iss") === page.issuer && page.clientID !== "" ? { kind: "sign-in" } : { kind: "visit" };
}

/** How long the page that opened this window may take to say that it got the issuer's answer. */
const openerTime = 1_500;

/** Passes the issuer's answer on to the page that opened this window. It is false if no page waits for it. */
function passOn(state: string, answer: string): Promise<boolean> {
  const channel = new BroadcastChannel(channelOf(state));
  return new Promise<boolean>((resolve) => {
    channel.onmessage = () => resolve(true);
    channel.postMessage(answer);
    setTimeout(() => resolve(false), openerTime);
  }).finally(() => channel.close());
}

/** Leaves the page for the issuer's. */
export async function goToIssuer(options: SignInOptions = {}): Promise<void> {
  const { url } = await prepareSignIn(options);
  location.assign(url);
}

/** Signs in in another window, so that this page keeps what a person typed. The signal gives up waiting for it. */
export async function signInElsewhere(signal: AbortSignal, options: SignInOptions = {}): Promise<void> {
  // The window must open in the click itself: browsers block one that opens after the issuer's answer.
  const opened = window.open("about:blank", "_blank", "popup,width=480,height=720");
  try {
    const { url, state } = await prepareSignIn(options);
    signal.throwIfAborted();
    if (opened === null) {
      throw new Error("The browser blocked the sign-in window. Allow windows of this page and try again.");
    }
    const answer = answerTo(state, signal);
    opened.location.replace(url);
    await finish(new URLSearchParams(await answer), signal);
  } catch (error) {
    opened?.close();
    throw error;
  }
}

/** The parameters that the issuer adds to the address of the window that signs in. */
function answerTo(state: string, signal: AbortSignal): Promise<string> {
  const channel = new BroadcastChannel(channelOf(state));
  return new Promise<string>((resolve, reject) => {
    channel.onmessage = (event: MessageEvent<string>) => {
      channel.postMessage("received"); // so the window knows that it may close
      resolve(event.data);
    };
    signal.addEventListener("abort", () => reject(signal.reason as Error));
  }).finally(() => channel.close());
}
