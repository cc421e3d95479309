import type { APIKey, Organization } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useMe, useReadOnly } from "../account";
import { refreshLive, useLive } from "../api/live";
import { href, useTitle } from "../router";
import { Button } from "../ui/button";
import { Following, Notice } from "../ui/feedback";
import { plural } from "../ui/format";
import { Icon } from "../ui/icons";
import { CreateKey } from "./key-create";
import { KeyTable } from "./key-table";
import { RevokeKey } from "./key-revoke";
import { usePages } from "../api/pages";
import { keysPath, organizationPath } from "./paths";

/** The API keys of the organization. */
export function KeysPage() {
  useTitle("API keys");
  const readOnly = useReadOnly();
  const [creating, setCreating] = useState(0);
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>API keys</h1>
        <span class="actions">
          <Button kind="primary" icon="plus" unavailable={readOnly} onClick={() => setCreating(creating + 1)}>
            Create a key
          </Button>
        </span>
      </div>
      <p class="quiet lead">
        Programs sign in with a key. A key with the role admin may do everything that you may; one with the role member
        may only read. Keep keys where you keep passwords, and give each program one.
      </p>
      {readOnly === undefined ? <Keys creating={creating > 0} onCreated={() => setCreating(0)} /> : <NotForMembers />}
    </>
  );
}

function NotForMembers() {
  return (
    <Notice tone="idle" title="Only admins can see and create API keys">
      <p>
        A key can have the rights of an admin, so members cannot list them. Ask an admin for a key, or to{" "}
        <a href={href(["members"])}>change your role</a>.
      </p>
    </Notice>
  );
}

const every = 30_000;

function Keys({ creating, onCreated }: { creating: boolean; onCreated: () => void }) {
  const pages = usePages<APIKey>(keysPath, { every });
  const organization = useLive<Organization>(organizationPath).data;
  const me = useMe();
  const [revoking, setRevoking] = useState<APIKey>();
  const changed = () => {
    pages.refresh();
    refreshLive(organizationPath);
  };
  return (
    <>
      <Following live={pages} what="the API keys">
        {(keys) =>
          keys.length === 0 ? (
            <NoKeys />
          ) : (
            <section class="card">
              <div class="head">
                <h2>{organization === undefined ? "Keys" : countText(organization)}</h2>
              </div>
              <KeyTable keys={keys} me={me} onRevoke={setRevoking} />
              {pages.more ? (
                <div class="body">
                  <Button busy={pages.loading} onClick={pages.loadMore}>
                    Show more
                  </Button>
                </div>
              ) : null}
            </section>
          )
        }
      </Following>
      {creating ? <CreateKey onChange={changed} onClose={onCreated} /> : null}
      {revoking === undefined ? null : (
        <RevokeKey
          key={revoking.id}
          apiKey={revoking}
          keys={pages.data ?? []}
          onChange={changed}
          onClose={() => setRevoking(undefined)}
        />
      )}
    </>
  );
}

const countText = ({ usage, limits }: Organization): string =>
  `${plural(usage.api_keys, "key")} of at most ${limits.api_keys}`;

function NoKeys() {
  return (
    <div class="card empty">
      <Icon name="key" />
      <h2>No API keys yet</h2>
      <p class="quiet">Create one for your first script, for your continuous integration, or for an SDK.</p>
    </div>
  );
}
