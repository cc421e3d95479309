import type { CreateAgentRequest, Image, Organization, Plan } from "@agents.example/client/schema";
import { useEffect, useRef, useState } from "preact/hooks";
import { useReadOnly } from "../account";
import { rulesOf } from "../agent/egress-fields";
import { putLive, refreshLive, useLive } from "../api/live";
import { organizationPath, plansPath } from "../organization/paths";
import { page } from "../page";
import { href, navigate, useRoute } from "../router";
import { useStore } from "../store";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Following, Notice } from "../ui/feedback";
import { Select, TextField } from "../ui/field";
import { formatDuration } from "../ui/time";
import { blockOf, fullLimit, smallestPlan } from "./capacity";
import { create, discardDraft, type Draft, draft, edit, isTyped, turnTo } from "./draft";
import { CreationFailure, RoomAdvice } from "./failure";
import { chosenOf, ImageChoice, imagesPath, isChoice, selectionOf } from "./image-choice";
import { isPasted, refusePasted } from "./pasted";
import { PlanChoice } from "./plans";
import { Reach } from "./reach";
import { useRoster } from "./roster-hook";
import { type Source, source } from "./source";
import { Variables } from "./variables";
import { check, isWrong, refused, variablesOf, type Wrong } from "./wrong";

const usualRegion = "us-central1";

/** The dialog of a new agent that begins with a snapshot, while there is one. It closes with the page. */
export function CopyDialog() {
  const from = useStore(source);
  const place = useRoute().segments.join("/");
  useEffect(() => () => source.set(undefined), [place]);
  return from === undefined ? null : <CreateDialog from={from} onClose={() => source.set(undefined)} />;
}

/** Asks for a new agent. What is typed stays until the agent is created or the person discards it. */
export function CreateDialog({ from, onClose }: { from?: Source; onClose: () => void }) {
  const readOnly = useReadOnly();
  if (readOnly !== undefined) {
    return (
      <Dialog title="New agent" onClose={onClose} foot={<Button onClick={onClose}>Close</Button>}>
        <Notice tone="idle">{readOnly}</Notice>
      </Dialog>
    );
  }
  return <Form from={from} onClose={onClose} />;
}

function Form({ from, onClose }: { from: Source | undefined; onClose: () => void }) {
  useState(() => turnTo(from?.snapshot.id ?? "", from === undefined ? "" : `${from.agent.name} copy`));
  const typed = useStore(draft);
  const plans = useLive<Plan[]>(plansPath, { every: 300_000 });
  const organization = useLive<Organization>(organizationPath, { every: 30_000 });
  const images = useLive<Image[]>(imagesPath, { every: 60_000 }).data ?? [];
  const [checked, setChecked] = useState(false);
  const returned = useRef(isTyped(typed));
  const send = useSend();
  useLeaveWarning(isTyped(typed));

  const known = plans.data !== undefined && organization.data !== undefined;
  const least = from?.agent.resource_plan ?? chosenOf(images, typed.image)?.image.min_plan;
  const needs = from?.snapshot.size_bytes ?? 0;
  const fitting = (plans.data ?? []).filter(({ agent }) => agent.storage_bytes >= needs);
  const plan = typed.plan || (known ? smallestPlan(fitting, organization.data as Organization, least) : "");
  const region = typed.region || (page.regions.includes(usualRegion) ? usualRegion : (page.regions[0] ?? ""));
  const wrong = wrongWith(typed, plan, checked);
  const block = organization.data === undefined ? undefined : blockOf(organization.data);

  const full = known ? fullLimit(plans.data ?? [], organization.data as Organization) : undefined;

  const submit = async () => {
    setChecked(true);
    if (isPasted(typed.pasted)) {
      edit({ pasted: refusePasted(typed.pasted) });
    } else if (!typed.sending && block === undefined && !isWrong(check(typed, plan))) {
      const own = from === undefined; // a copy has the region and the image of the other
      await send(requestOf(typed, plan, own ? region : "", own ? imageOf(typed, images) : ""));
    }
  };
  return (
    <Dialog
      title={from === undefined ? "New agent" : `New agent from “${from.snapshot.name}”`}
      wide
      onClose={onClose}
      onSubmit={submit}
      foot={
        <>
          {isTyped(typed) && !typed.sending ? (
            <Button kind="plain" onClick={() => confirm("Discard what you typed?") && discardDraft()}>
              Start over
            </Button>
          ) : null}
          <Button kind="primary" type="submit" busy={typed.sending} unavailable={block}>
            {typed.sending ? "Creating …" : "Create the agent"}
          </Button>
        </>
      }
    >
      <div class="stack">
        {returned.current && isTyped(typed) ? (
          <p class="quiet small" role="status">
            This is what you typed before.
          </p>
        ) : null}
        {block === undefined ? null : (
          <Notice tone="warn" actions={<a href={href(["billing"])}>Go to billing</a>}>
            {block}
          </Notice>
        )}
        {full === undefined ? null : (
          <Notice tone="warn" title="Your plan has no room for another agent">
            <RoomAdvice limit={full} />
          </Notice>
        )}
        <TextField
          label="Name"
          value={typed.name}
          onInput={(name) => edit({ name })}
          wrong={wrong.name}
          hint="For people. Two agents may have the same one."
          autofocus
        />
        <div class="stack plan-choice">
          <Following live={plans} what="the plans">
            {(list) => (
              <Following live={organization} what="what is left of your plan">
                {(mine) => (
                  <PlanChoice
                    plans={list}
                    organization={mine}
                    value={plan}
                    needs={needs}
                    onChange={(chosen) => edit({ plan: chosen })}
                    wrong={wrong.plan}
                  />
                )}
              </Following>
            )}
          </Following>
          {from === undefined ? (
            <Defaults
              plan={plans.data?.find(({ id }) => id === plan)}
              organization={organization.data}
              ownRules={typed.egress !== undefined}
            />
          ) : null}
        </div>
        {from?.facts}
        {isChoice(images) && from === undefined ? (
          <ImageChoice
            images={images}
            plans={plans.data ?? []}
            plan={plan}
            value={typed.image}
            onChange={(image) => edit({ image })}
            wrong={wrong.image}
          />
        ) : null}
        {page.regions.length === 0 || from !== undefined ? null : (
          <Select
            label="Region"
            value={region}
            options={page.regions.map((value) => ({ value, label: value }))}
            onChange={(chosen) => edit({ region: chosen })}
            hint="Where the agent runs. You cannot change it later."
            wrong={wrong.region}
          />
        )}
        {from === undefined ? (
          <TextField
            label="Import an archive (https address)"
            value={typed.archive}
            onInput={(archive) => edit({ archive })}
            hint="Optional. The agent begins with the files of an exported snapshot. The address is kept as a secret."
            wrong={wrong.archive}
            mono
          />
        ) : null}
        {from !== undefined || organization.data === undefined ? null : (
          <Reach rules={typed.egress} preset={organization.data.egress} error={typed.failure?.error} />
        )}
        <Variables variables={typed.variables} pasted={typed.pasted} wrong={wrong.variables} />
        {typed.failure === undefined ? null : (
          <div class="creation-failure">
            <CreationFailure error={typed.failure.error} busy={typed.sending} />
          </div>
        )}
      </div>
    </Dialog>
  );
}

/** When the new agent falls asleep and what it reaches, unless its settings are changed. */
function Defaults(props: {
  plan: Plan | undefined;
  organization: Organization | undefined;
  ownRules: boolean;
}) {
  const { plan, organization, ownRules } = props;
  return plan === undefined || organization === undefined ? null : (
    <p class="small quiet">
      {plan.sleep_after_seconds === null
        ? "It stays awake, also when it is not used."
        : `It falls asleep after ${formatDuration(plan.sleep_after_seconds * 1_000)} without use, and a request ` +
          "wakes it."}{" "}
      {ownRules
        ? ""
        : organization.egress.mode === "open"
          ? "It reaches every host."
          : "It reaches only the hosts that your organization allows new agents."}{" "}
      You can change that in its settings.
    </p>
  );
}

function wrongWith(typed: Draft, plan: string, checked: boolean): Wrong {
  const own = check(typed, plan);
  if (checked && isWrong(own)) {
    return own;
  }
  const none: Wrong = { name: [], plan: [], region: [], image: [], archive: [], variables: new Map() };
  return typed.failure === undefined ? none : refused(typed.failure.error, typed.failure.sent, typed);
}

/** What the new agent runs, if there is anything to choose. */
function imageOf(typed: Draft, images: Image[]): string {
  const chosen = isChoice(images) ? chosenOf(images, typed.image) : undefined;
  return chosen === undefined ? "" : selectionOf(chosen.image, chosen.version.version);
}

function requestOf(typed: Draft, plan: string, region: string, image: string): CreateAgentRequest {
  const request: CreateAgentRequest = {
    name: typed.name.trim(),
    resource_plan: plan as CreateAgentRequest["resource_plan"],
  };
  if (typed.from !== "") {
    request.from_snapshot = typed.from;
  }
  if (typed.archive.trim() !== "") {
    request.import_url = typed.archive.trim();
  }
  if (region !== "") {
    request.region = region;
  }
  if (image !== "") {
    request.image = image;
  }
  if (typed.egress !== undefined) {
    request.egress = rulesOf(typed.egress);
  }
  const variables = variablesOf(typed.variables);
  if (Object.keys(variables).length > 0) {
    request.env_vars = variables;
  }
  return request;
}

/** Creates the agent, and goes to its page if the dialog is still there. */
function useSend(): (request: CreateAgentRequest) => Promise<void> {
  const roster = useRoster();
  const open = useRef(true);
  useEffect(() => {
    open.current = true;
    return () => {
      open.current = false;
    };
  }, []);
  return async (request) => {
    const agent = await create(request);
    if (agent === undefined) {
      return;
    }
    roster.put(agent);
    putLive(`/api/v1/agents/${agent.id}`, agent);
    refreshLive(organizationPath);
    toast(`${agent.name} is created, and starts now.`);
    if (open.current) {
      navigate(href(["agents", agent.id]), { replace: true });
    }
  };
}

/** Asks before the tab is closed with a draft in it. */
function useLeaveWarning(typed: boolean): void {
  useEffect(() => {
    if (!typed) {
      return;
    }
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [typed]);
}
