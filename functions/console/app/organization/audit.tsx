import type { AuditEntry } from "@agents.example/client/schema";
import { useMemo } from "preact/hooks";
import { useMe, useReadOnly } from "../account";
import type { CallError } from "../api/errors";
import { href, useTitle } from "../router";
import { Button, LinkButton } from "../ui/button";
import { Following, Notice } from "../ui/feedback";
import { planName, plural } from "../ui/format";
import { Icon } from "../ui/icons";
import { Entry } from "./audit-entry";
import { ExportProgress, useExport } from "./audit-export";
import { Filters } from "./audit-filters";
import { addressOf, type Filter, useFilter } from "./audit-query";
import { type Pages, usePages } from "../api/pages";
import { useKeyNames } from "./key-names";
import { auditPath } from "./paths";

/** Who changed what in the organization. */
export function AuditPage() {
  useTitle("Audit log");
  return useReadOnly() === undefined ? (
    <Log />
  ) : (
    <>
      <Head />
      <Notice tone="idle" title="Only admins can read the audit log">
        <p>
          It has the addresses and clients of your colleagues. Ask an admin for what you need, or to{" "}
          <a href={href(["members"])}>change your role</a>.
        </p>
      </Notice>
    </>
  );
}

const every = 15_000;
const gate = "plan_feature_required";

function Log() {
  const filter = useFilter();
  const pages = usePages<AuditEntry>(auditPath, { query: filter, every });
  const exporting = useExport(filter);
  const keys = useKeyNames();
  const names = useMemo(() => namesOf(pages.data ?? [], keys), [pages.data, keys]);
  const refused = pages.error?.code === gate ? pages.error : undefined;
  return (
    <>
      <Head
        unavailable={refused === undefined ? undefined : refused.message}
        busy={exporting.received !== undefined}
        onExport={exporting.start}
      />
      <ExportProgress state={exporting} />
      {refused === undefined ? (
        <>
          <Filters filter={filter} names={names} />
          <Following live={pages} what="the audit log">
            {(entries) => <Entries entries={entries} pages={pages} filter={filter} names={names} />}
          </Following>
        </>
      ) : (
        <Gate error={refused} />
      )}
    </>
  );
}

/** The names of callers and objects, as far as the entries and the API keys have them, by their ID. */
function namesOf(entries: AuditEntry[], keys: Map<string, string>): Map<string, string> {
  const names = new Map(keys);
  for (const { actor, target } of entries) {
    if (actor.email !== null) {
      names.set(actor.id, actor.email);
    }
    if (target.id !== null && target.name !== null && !names.has(target.id)) {
      names.set(target.id, target.name);
    }
  }
  return names;
}

function Head(props: { unavailable?: string | undefined; busy?: boolean; onExport?: () => void }) {
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Audit log</h1>
        {props.onExport === undefined ? null : (
          <span class="actions">
            <Button icon="down" unavailable={props.unavailable} busy={props.busy ?? false} onClick={props.onExport}>
              Export
            </Button>
          </span>
        )}
      </div>
      <p class="quiet lead">
        Every change, every reveal of credentials and every refused attempt: who made it, when, from where, and what
        changed. Secret values are never recorded.
      </p>
    </>
  );
}

/** The plan does not include reading the log. */
function Gate({ error }: { error: CallError }) {
  const organization = useMe().organization;
  const upgrade = typeof error.meta["upgrade_to"] === "string" ? planName(error.meta["upgrade_to"]) : "Enterprise";
  return (
    <div class="card empty">
      <Icon name="lock" />
      <h2>The audit log comes with the {upgrade} plan</h2>
      <p class="quiet">
        Your organization is on the {planName(organization?.plan ?? "hobby")} plan. The service records all changes on
        every plan, so the entries that are still kept are there after an upgrade.
      </p>
      <LinkButton href={href(["billing"])} icon="billing" kind="primary">
        Compare plans
      </LinkButton>
    </div>
  );
}

function Entries(props: {
  entries: AuditEntry[];
  pages: Pages<AuditEntry>;
  filter: Filter;
  names: Map<string, string>;
}) {
  const { entries, pages, filter, names } = props;
  const filtered = Object.keys(filter).length > 0;
  if (entries.length === 0) {
    return (
      <div class="card empty">
        <Icon name="audit" />
        <h2>{filtered ? "No entry matches the filter" : "No entries yet"}</h2>
        <p class="quiet">
          {filtered
            ? "Widen the range or leave out a field. Old entries are deleted after the time that the plan keeps them."
            : "The next change of the organization is the first entry."}
        </p>
        {filtered ? <Button onClick={() => (location.hash = addressOf({}))}>Clear the filter</Button> : null}
      </div>
    );
  }
  return (
    <section class="card">
      <div class="head">
        <h2>{plural(entries.length, "entry", "entries")}{pages.more ? ", and older ones" : ""}</h2>
        <span class="actions">
          <Button icon="refresh" kind="plain" busy={pages.loading} onClick={pages.refresh}>
            Refresh
          </Button>
        </span>
      </div>
      <ul class="entries" aria-label="Entries, newest first">
        {entries.map((entry) => (
          <Entry key={entry.id} entry={entry} filter={filter} names={names} />
        ))}
      </ul>
      {pages.more ? (
        <div class="body">
          <Button busy={pages.loading} onClick={pages.loadMore}>
            Show older entries
          </Button>
        </div>
      ) : null}
    </section>
  );
}
