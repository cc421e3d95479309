import type { Submit } from "../api/submit";
import { href } from "../router";
import { LinkButton } from "./button";
import { Failure } from "./feedback";

/** To repeat a change after a lost answer is safe: it has the same intent. */
const unknown = "It is not known whether the change was made. Trying again is safe.";

/** Why a change failed. If money is the reason, there is a way to the plan. */
export function SubmitFailure<I>(props: {
  submit: Submit<I>;
  title: string;
  /** "submit" sends what the form around the failure has by then. Otherwise, the failed attempt is repeated. */
  retry?: "submit";
}) {
  const { submit, title, retry = () => void submit.retry() } = props;
  if (submit.error === undefined) {
    return null;
  }
  return (
    <div class="stack-tight">
      <Failure
        error={submit.error}
        title={submit.error.status === 0 && !submit.error.unsent ? unknown : title}
        busy={submit.busy}
        retry={submit.error.temporary ? retry : undefined}
      />
      {submit.error.status === 402 ? (
        <div class="row">
          <LinkButton href={href(["billing"])} icon="billing">
            See plan and payment
          </LinkButton>
          <LinkButton href={href(["usage"])} icon="usage">
            See what is in use
          </LinkButton>
        </div>
      ) : null}
    </div>
  );
}
