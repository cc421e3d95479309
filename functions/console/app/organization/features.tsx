import { Icon } from "../ui/icons";

interface Feature {
  id: string;
  with: string;
  /** None if plans need not have it: the others do not say that they lack it. */
  without?: string;
}

/** What plans may include, and what it means to have it or not. */
const known: Feature[] = [
  {
    id: "all_ports",
    with: "Agents connect to every port of the internet, except 25, 465 and 587 for mail.",
    without: "Agents connect to the ports 80 and 443 of the internet only.",
  },
  {
    id: "daily_backups",
    with: "Each agent’s volume is backed up once a day. Backups are kept for a week, also of deleted agents.",
  },
  {
    id: "audit_log",
    with: "Admins can read and export the audit log.",
    without: "The audit log is written, but cannot be read.",
  },
  {
    id: "exec",
    with: "Admins run commands, open terminals and copy files in the containers of agents.",
    without: "No terminals and commands in the containers of agents.",
  },
];

const shortNames: Record<string, string> = {
  all_ports: "All ports of the internet",
  daily_backups: "Daily backups",
  audit_log: "Audit log",
  exec: "Terminals and commands",
};

const nameOf = (id: string): string => shortNames[id] ?? id.replaceAll("_", " ");

interface Row {
  id: string;
  has: boolean;
  sentence: string;
}

/** What there is to say about a plan: first of the features that the console knows. */
const rowsOf = (features: string[]): Row[] => [
  ...known.flatMap(({ id, with: included, without }) => {
    const has = features.includes(id);
    const sentence = has ? included : without;
    return sentence === undefined ? [] : [{ id, has, sentence }];
  }),
  ...features
    .filter((id) => !known.some((feature) => feature.id === id))
    .map((id) => ({ id, has: true, sentence: nameOf(id) })),
];

/** What a plan includes and leaves out, in sentences. */
export const FeatureSentences = ({ features }: { features: string[] }) => (
  <ul class="features">
    {rowsOf(features).map(({ id, has, sentence }) => (
      <Item key={id} has={has}>
        {sentence}
      </Item>
    ))}
  </ul>
);

/** What a plan includes and leaves out, in a few words, to compare plans. */
export const FeatureNames = ({ features }: { features: string[] }) => (
  <ul class="features">
    {rowsOf(features).map(({ id, has }) => (
      <Item key={id} has={has}>
        {nameOf(id)}
      </Item>
    ))}
  </ul>
);

function Item({ has, children }: { has: boolean; children: string }) {
  return (
    <li class={has ? undefined : "quiet"}>
      <Icon name={has ? "check" : "close"} />
      <span>
        <span class="visually-hidden">{has ? "Included: " : "Not included: "}</span>
        {children}
      </span>
    </li>
  );
}
