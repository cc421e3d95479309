import type { Me } from "@agents.example/client/schema";
import { useEffect, useRef, useState } from "preact/hooks";
import { identityOf, MeProvider, signOut } from "./account";
import { forgetLive, useLive } from "./api/live";
import { type CallError, asError } from "./api/errors";
import { CopyDialog } from "./agents/create";
import { AgentsPage } from "./agents/page";
import { href, useRoute, useTitle } from "./router";
import { type Arrival, arrive, goToIssuer } from "./session/return";
import { claimSession, session } from "./session/session";
import { SignIn } from "./session/sign-in";
import { Shell } from "./shell";
import { useStore } from "./store";
import { Announcements, toast } from "./ui/announce";
import { Button, LinkButton } from "./ui/button";
import { Failure } from "./ui/feedback";
import { SessionEnded } from "./session/ended";
import { lazy } from "./ui/lazy";

const AgentPage = lazy(() => import("./agent/page").then((module) => module.AgentPage));
const UsagePage = lazy(() => import("./organization/usage").then((module) => module.UsagePage));
const KeysPage = lazy(() => import("./organization/keys").then((module) => module.KeysPage));
const WebhooksPage = lazy(() => import("./organization/webhooks").then((module) => module.WebhooksPage));
const MembersPage = lazy(() => import("./organization/members").then((module) => module.MembersPage));
const BillingPage = lazy(() => import("./organization/billing").then((module) => module.BillingPage));
const AuditPage = lazy(() => import("./organization/audit").then((module) => module.AuditPage));

/** The console: sign-in first, then the pages. */
export function App() {
  const [arrival, setArrival] = useState<Arrival>();
  const [problem, setProblem] = useState<string>();
  const signedIn = useStore(session) !== undefined;
  useEffect(() => {
    claimSession()
      .then(arrive)
      .then(async (result) => {
        if (result.kind === "sign-in") {
          await goToIssuer();
        } else {
          setArrival(result);
        }
      })
      .catch((error: unknown) => {
        setProblem(asError(error).message);
        if (session.value !== undefined) {
          toast(asError(error).message, "warn"); // the page goes on with the former session
        }
        setArrival({ kind: "visit" });
      });
  }, []);
  switch (true) {
    case arrival === undefined:
      return <StatusPage text="Signing in …" />;
    case arrival?.kind === "done":
      return <StatusPage text={`${arrival.refused ? "" : "You are signed in. "}You can close this window.`} />;
    case !signedIn:
      return <SignIn problem={problem} />;
    default:
      return <SignedIn />;
  }
}

function StatusPage({ text }: { text: string }) {
  return (
    <main class="door">
      <p role="status">{text}</p>
    </main>
  );
}

const mePath = "/api/v1/me";
const meEvery = 60_000;

function SignedIn() {
  const me = useLive<Me>(mePath, { every: meEvery, quick: meEvery });
  useEffect(() => session.follow((next) => next && me.refresh()), [me.refresh]);
  const who = me.data === undefined ? "" : identityOf(me.data);
  const last = useRef(who);
  if (last.current !== who) {
    if (last.current !== "") {
      forgetLive(mePath); // before the pages of the new caller render
    }
    last.current = who;
  }
  if (me.data === undefined) {
    return (
      <>
        <main class="door">
          {me.error ? <NoCaller error={me.error} retry={me.refresh} /> : <p role="status">Loading …</p>}
        </main>
        <SessionEnded />
        <Announcements />
      </>
    );
  }
  return (
    <MeProvider value={me.data} key={who}>
      <Shell>
        <Page />
        <CopyDialog />
      </Shell>
    </MeProvider>
  );
}

/** Shown until the service says who the caller is. */
function NoCaller({ error, retry }: { error: CallError; retry: () => void }) {
  return (
    <div class="card stack">
      <h1>The console could not load</h1>
      <Failure error={error} retry={retry} again={error.temporary} />
      <div class="row">
        <Button icon="back" onClick={() => void signOut()}>
          Sign out
        </Button>
      </div>
    </div>
  );
}

function Page() {
  const { segments } = useRoute();
  const [first = "agents", second] = segments;
  switch (first) {
    case "agents":
      return second === undefined || second === "new" ? <AgentsPage /> : <AgentPage key={second} id={second} />;
    case "usage":
      return <UsagePage />;
    case "api-keys":
      return <KeysPage />;
    case "webhooks":
      return <WebhooksPage />;
    case "members":
      return <MembersPage />;
    case "billing":
      return <BillingPage />;
    case "audit-log":
      return <AuditPage />;
    default:
      return <Unknown />;
  }
}

function Unknown() {
  useTitle("Not found");
  return (
    <div class="card empty">
      <h1 tabIndex={-1}>This page does not exist</h1>
      <p class="quiet">The address may be mistyped, or the page has moved.</p>
      <LinkButton href={href(["agents"])} icon="agents">
        Go to the agents
      </LinkButton>
    </div>
  );
}
