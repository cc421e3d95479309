import type { Me } from "@agents.example/client/schema";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { asError } from "./api/errors";
import { goToIssuer } from "./session/return";
import { signOutURL } from "./session/oidc";
import { endSession, session } from "./session/session";
import { toast } from "./ui/announce";
import { Button } from "./ui/button";
import { planName } from "./ui/format";
import { Menu } from "./ui/menu";
import { cycleTheme, themeText, useTheme } from "./theme";

const MeContext = createContext<Me | undefined>(undefined);

export const MeProvider = MeContext.Provider;

/** Who uses the console. */
export function useMe(): Me {
  const me = useContext(MeContext);
  if (me === undefined) {
    throw new Error("useMe is used outside the shell");
  }
  return me;
}

/** Tells callers apart, so that no page shows one what another saw. All API keys of an organization see the same. */
export const identityOf = (me: Me): string =>
  [me.api_key === null ? me.id : "key", me.organization?.id, me.role].join(" ");

/** Why the caller may not change anything; undefined if they may. */
export function useReadOnly(): string | undefined {
  return useMe().role === "admin" ? undefined : "Only admins of the organization can do this. Ask one of them.";
}

/** Leaves the console, also at the issuer. */
export async function signOut(): Promise<void> {
  const last = session.value;
  endSession(); // also if the issuer cannot be reached
  if (last?.kind !== "oidc") {
    return;
  }
  const url = await signOutURL(last.idToken).catch(() => undefined);
  if (url !== undefined && session.value === undefined) {
    location.assign(url);
  }
}

async function switchCaller(): Promise<void> {
  try {
    await goToIssuer({ ask: true });
  } catch (error) {
    toast(asError(error).message, "bad");
  }
}

/** Who is signed in, for which organization, and how to change that. */
export function AccountMenu() {
  const me = useMe();
  const theme = useTheme();
  const name = me.name ?? me.email ?? me.api_key?.name ?? "Account";
  return (
    <>
      {me.organization === null ? null : (
        <span class="organization small quiet">
          {me.role === "admin" ? "Admin" : "Member"} of <span class="cut">{me.organization.id}</span>
        </span>
      )}
      <Menu icon="user" label={<span class="cut">{name}</span>}>
        {(close) => (
          <>
            <div class="who stack-tight">
              <strong>{name}</strong>
              <span class="small quiet">
                {me.api_key === null ? me.email : `API key ${me.api_key.key_prefix}…`}
              </span>
              <span class="small">
                {me.organization === null
                  ? "No organization"
                  : `${me.organization.id}, ${planName(me.organization.plan)} plan`}
              </span>
              <span class="small">
                Role: {me.role ?? "none"}
                {me.role === "member" ? " (can look, but not change)" : ""}
              </span>
            </div>
            {session.value?.kind === "oidc" ? (
              <Button kind="plain" icon="members" onClick={() => void switchCaller()}>
                Switch user or organization
              </Button>
            ) : null}
            <Button kind="plain" icon="theme" onClick={cycleTheme}>
              Theme: {themeText(theme)}
            </Button>
            <Button
              kind="plain"
              icon="back"
              onClick={() => {
                close();
                void signOut();
              }}
            >
              Sign out
            </Button>
          </>
        )}
      </Menu>
    </>
  );
}
