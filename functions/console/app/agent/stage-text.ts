interface StageText {
  title: string;
  /** What the stage is for, in plain words. */
  about: string;
}

const texts: Record<string, StageText> = {
  namespace: { title: "Namespace", about: "Gives the agent a separate place in the region’s cluster." },
  policy: { title: "Limits and network rules", about: "Sets the plan’s limits, and what may connect to what." },
  identity: {
    title: "Identity and credentials",
    about: "Creates the password of the dashboard and the key of the API.",
  },
  secrets: { title: "Secrets", about: "Brings the secret values to the agent." },
  storage: { title: "Volume", about: "Prepares the volume that keeps the agent’s files." },
  runtime: { title: "Pod", about: "Asks the cluster to run the agent with its variables and secrets." },
  route: { title: "Address", about: "Connects the agent’s address to its pod." },
  ready: { title: "Ready", about: "Waits until the pod is ready and the agent answers on its address." },
};

export const stageText = (name: string): StageText => texts[name] ?? { title: name, about: "" };
