import type { Agent } from "@agents.example/client/schema";
import { putLive } from "../api/live";
import { type Change, type Submit, useChange } from "../api/submit";
import { toast } from "../ui/announce";
import { agentPath } from "./paths";

/** Sends a change whose answer is the agent as it is then, says what happened, and closes the dialog that asked. */
export function useAgentChange(change: Change, said: (agent: Agent) => string, onClose?: () => void): Submit {
  return useChange<Agent>(change, (agent) => {
    putLive(agentPath(agent.id), agent);
    toast(said(agent));
    onClose?.();
  });
}
