import type { AgentEgress, AgentEgressSpec, EgressMode } from "@agents.example/client/schema";
import { sentenceOf } from "../agents/wrong";
import { type CallError, violationsAt } from "../api/errors";
import { Select, TextArea } from "../ui/field";

/** What an agent may reach, as a person edits it: the lists have a host on each line. */
export interface RulesDraft {
  mode: EgressMode;
  allow: string;
  deny: string;
}

export const draftOf = ({ mode, allow, deny }: AgentEgress): RulesDraft => ({
  mode,
  allow: allow.join("\n"),
  deny: deny.join("\n"),
});

export const hostsOf = (text: string): string[] => text.split(/[\s,]+/).filter((host) => host !== "");

/** The rules of a draft, with hosts in lower case, as the service has them. */
export const rulesOf = ({ mode, allow, deny }: RulesDraft): AgentEgressSpec => ({
  mode,
  allow: hostsOf(allow.toLowerCase()),
  deny: hostsOf(deny.toLowerCase()),
});

/** What a mode means, in a few words. */
export const modeText = (mode: EgressMode): string =>
  mode === "open" ? "Every host" : mode === "allow_list" ? "Allowed hosts only" : mode;

const modes = (["open", "allow_list"] as const).map((value) => ({ value, label: modeText(value) }));

/** The fields of what an agent may reach, with what the service found wrong in them. */
export function RulesFields(props: {
  draft: RulesDraft;
  onChange: (draft: RulesDraft) => void;
  error: CallError | undefined;
}) {
  const { draft, onChange, error } = props;
  const change = (part: Partial<RulesDraft>) => onChange({ ...draft, ...part });
  return (
    <>
      <Select
        label="It reaches"
        value={draft.mode}
        options={modes}
        onChange={(mode) => change({ mode: mode as EgressMode })}
        hint="Allowed hosts are reached on the ports 80 and 443."
        wrong={violationsAt(error, "egress")
          .filter(({ loc }) => loc[2] !== "allow" && loc[2] !== "deny")
          .map(sentenceOf)}
      />
      <TextArea
        label="Allowed hosts"
        mono
        value={draft.allow}
        onInput={(allow) => change({ allow })}
        placeholder="api.example.com"
        hint="One on each line. *.example.com stands for all names below example.com, and * for every name."
        wrong={wrongHosts(error, "allow", draft.allow)}
      />
      <TextArea
        label="Denied hosts"
        mono
        rows={2}
        value={draft.deny}
        onInput={(deny) => change({ deny })}
        placeholder="telemetry.example.com"
        hint="They are refused although the list above has them."
        wrong={wrongHosts(error, "deny", draft.deny)}
      />
    </>
  );
}

/** What is wrong with hosts of a list, each with the host that it is about. */
function wrongHosts(error: CallError | undefined, field: "allow" | "deny", text: string): string[] {
  const hosts = hostsOf(text);
  return violationsAt(error, "egress", field).map((violation) => {
    const host = hosts[Number(violation.loc[3])];
    return host === undefined ? sentenceOf(violation) : `${host}: ${sentenceOf(violation)}`;
  });
}

/** The lists that rules have. Those of open rules are shown, too: they count once the mode is changed. */
export function RulesLists({ egress: { mode, allow, deny } }: { egress: AgentEgress }) {
  return (
    <>
      {allow.length === 0 && mode === "allow_list" ? <p class="quiet">No host is allowed.</p> : null}
      <HostList label={mode === "open" ? "Allowed hosts, which do not count now" : "Allowed hosts"} hosts={allow} />
      <HostList label={mode === "open" ? "Denied hosts, which do not count now" : "Denied hosts"} hosts={deny} />
    </>
  );
}

function HostList({ label, hosts }: { label: string; hosts: string[] }) {
  return hosts.length === 0 ? null : (
    <div class="stack-tight">
      <span class="small quiet">{label}</span>
      <ul class="hosts" aria-label={label}>
        {hosts.map((host) => (
          <li key={host}>
            <code>{host}</code>
          </li>
        ))}
      </ul>
    </div>
  );
}
