import type { ComponentChildren } from "preact";
import { type CallError, describe } from "../api/errors";
import type { Live } from "../api/live";
import { Button } from "./button";
import { CopyButton } from "./copy";
import { Icon } from "./icons";
import { type Tone, toneIcons } from "./tone";
import { Time } from "./time";

/** A remark about the page or a part of it. */
export function Notice(props: {
  tone: Tone;
  title?: ComponentChildren;
  children?: ComponentChildren;
  actions?: ComponentChildren;
  /** Makes assistive technology read it out when it appears. */
  live?: boolean;
}) {
  const { tone, title, children, actions, live = false } = props;
  return (
    <div class={`notice tone-${tone}`} role={live ? (tone === "bad" ? "alert" : "status") : undefined}>
      <Icon name={toneIcons[tone]} />
      <div class="text">
        {title === undefined ? null : <strong>{title}</strong>}
        {children}
        {actions === undefined ? null : <div class="row">{actions}</div>}
      </div>
    </div>
  );
}

const triesAgain = "The console tries again by itself.";

/** A request that failed: what happened, what to do, and the number under which support finds it. */
export function Failure(props: {
  error: CallError;
  /** Repeats the request; "submit" submits the form around the failure again. */
  retry?: (() => void) | "submit" | undefined;
  title?: string;
  busy?: boolean;
  /** Whether the console repeats the request by itself. */
  again?: boolean;
}) {
  const { error, retry, title, busy = false, again = false } = props;
  return (
    <Notice
      tone="bad"
      live
      title={title}
      actions={
        <>
          {retry === undefined ? null : (
            <Button icon="refresh" busy={busy} {...(retry === "submit" ? { type: retry } : { onClick: retry })}>
              Try again
            </Button>
          )}
          {error.requestId === "" ? null : (
            <span class="small quiet row">
              Request <code>{error.requestId}</code>
              <CopyButton text={error.requestId} what="request ID" />
            </span>
          )}
        </>
      }
    >
      {error.violations.length === 0 ? (
        <p>
          {error.message} {again ? triesAgain : ""}
        </p>
      ) : (
        <ul>
          {error.violations.map((violation) => (
            <li key={violation.loc.join(".") + violation.type}>{describe(violation)}</li>
          ))}
        </ul>
      )}
    </Notice>
  );
}

/** What a page shows of something that it follows: a placeholder, then the content, and failures in between. */
export function Following<T>(props: {
  live: Live<T>;
  children: (data: T) => ComponentChildren;
  /** The thing in words, such as "the agents". */
  what: string;
}) {
  const { live, children, what } = props;
  const { data, error, updated, refresh } = live;
  if (data === undefined) {
    return error ? (
      <Failure error={error} retry={refresh} again={error.temporary} />
    ) : (
      <Waiting what={what} />
    );
  }
  return (
    <>
      {error ? (
        <Notice tone="warn" live actions={<RetryAndID error={error} retry={refresh} />}>
          <p>
            {error.message} What you see is from <Time value={updated ?? 0} />. {error.temporary ? triesAgain : ""}
          </p>
        </Notice>
      ) : null}
      {children(data)}
    </>
  );
}

/** A short remark that a part of a page is not up to date. */
export function Stale({ live, missing }: {
  live: Live<unknown>;
  /** What to say if there is nothing yet; undefined if the part shows that by itself. */
  missing?: string;
}) {
  const { error, updated, refresh } = live;
  if (error === undefined || (updated === undefined && missing === undefined)) {
    return null;
  }
  return (
    <div class="row small">
      <span>
        {updated === undefined ? missing : <>Not up to date. Last updated <Time value={updated} />.</>} {error.message}
      </span>
      <Button kind="plain" icon="refresh" onClick={refresh}>
        Try now
      </Button>
    </div>
  );
}

function RetryAndID({ error, retry }: { error: CallError; retry: () => void }) {
  return (
    <>
      <Button icon="refresh" onClick={retry}>
        Try now
      </Button>
      {error.requestId === "" ? null : (
        <span class="small quiet">
          Request <code>{error.requestId}</code>
        </span>
      )}
    </>
  );
}

/** A placeholder while something loads for the first time. */
export function Waiting({ what }: { what: string }) {
  return (
    <div class="waiting" role="status">
      <span class="visually-hidden">Loading {what} …</span>
    </div>
  );
}
