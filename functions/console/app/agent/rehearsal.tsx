import type { Rehearsal } from "@agents.example/client/schema";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api/client";
import { type CallError, asError } from "../api/errors";
import type { Change } from "../api/submit";
import { href } from "../router";
import { Notice } from "../ui/feedback";
import { Loss } from "./loss";
import { costsTheSame, downtimeText, lostHosts, priceText, restartText, usageText } from "./rehearsal-text";

interface Outcome {
  /** The change that was rehearsed. */
  of: string;
  answer?: Rehearsal;
  error?: CallError;
}

/** How long a change must stay as it is before it is rehearsed: a person may be typing. The first one does not wait. */
const debounce = 600;

/** Asks the service what a change would do, without making it. Nothing is asked without a change. */
function useRehearsal(change: Change | undefined, asOf: string): Outcome | undefined {
  const [outcome, setOutcome] = useState<Outcome>();
  const of = change === undefined ? "" : JSON.stringify([change, asOf]);
  const asked = useRef(false);
  useEffect(() => {
    if (change === undefined) {
      return;
    }
    const { path, method, body } = change;
    const stop = new AbortController();
    const ask = () =>
      call<Rehearsal>(path, { method, body, query: { dry_run: true }, signal: stop.signal })
        .then(({ data }) => setOutcome({ of, answer: data }))
        .catch((error: unknown) => {
          if (!stop.signal.aborted) {
            setOutcome({ of, error: asError(error) });
          }
        });
    const timer = setTimeout(() => void ask(), asked.current ? debounce : 0);
    asked.current = true;
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [of]);
  return outcome?.of === of ? outcome : undefined;
}

/**
 * What the service says that a change would do now: a rehearsal has all checks of the real call. It is asked again when
 * asOf, such as the agent's status, changes. With a text about the downtime, the dialog says itself what happens to the
 * pod.
 */
export function Forecast(props: { change: Change | undefined; asOf: string; downtime?: string }) {
  const { change, asOf, downtime } = props;
  const outcome = useRehearsal(change, asOf);
  if (change === undefined) {
    return null;
  }
  if (outcome?.error !== undefined) {
    return <Refusal error={outcome.error} />;
  }
  const would = outcome?.answer?.would;
  return (
    <section class="forecast" aria-label="What the service expects" aria-busy={would === undefined}>
      <dl class="facts">
        {would?.loses_data_since == null ? null : <Loss since={would.loses_data_since} />}
        {would?.loses_hosts?.length ? (
          <>
            <dt>No longer reached</dt>
            <dd>{lostHosts(would.loses_hosts)}</dd>
          </>
        ) : null}
        {downtime === undefined ? (
          <>
            <dt>Restart</dt>
            <dd>{would === undefined ? "…" : restartText(would)}</dd>
            <dt>Expected downtime</dt>
            <dd>{would === undefined ? "…" : downtimeText(would)}</dd>
          </>
        ) : (
          <>
            <dt>Downtime</dt>
            <dd>
              {downtime} {would?.downtime_seconds_estimate ? `${downtimeText(would)}.` : ""}
            </dd>
          </>
        )}
        {would !== undefined && costsTheSame(would) ? (
          <>
            <dt>In use, and price</dt>
            <dd>The same as now</dd>
          </>
        ) : (
          <>
            <dt>In use afterwards</dt>
            <dd>{would === undefined ? "…" : usageText(would)}</dd>
            <dt>Price</dt>
            <dd>{would === undefined ? "…" : priceText(would)}</dd>
          </>
        )}
      </dl>
    </section>
  );
}

/** The real call would fail as the rehearsal did, unless the reason passes. */
function Refusal({ error }: { error: CallError }) {
  if (error.status === 422) {
    return null; // the fields say so when the change is sent, and a name may be half typed
  }
  if (error.temporary || error.status === 401) {
    return <p class="small quiet">The service could not say in advance what the change does: {error.message}</p>;
  }
  return (
    <Notice tone="warn" live title="The service would refuse this now">
      <p>
        {error.message} {error.status === 402 ? <a href={href(["billing"])}>See plan and payment.</a> : null}
      </p>
    </Notice>
  );
}
