const refusals: Record<string, string> = {
  not_listed: "It was not on the agent’s list of allowed hosts",
  denied: "It was on the agent’s list of denied hosts",
  not_public: "Its address is not one of the internet",
  no_name: "The connection named no host",
  other_host: "The request named another host than its connection",
  unsupported: "The gate does not serve this kind of request",
  too_many: "The agent had too many connections or requests",
  unreachable: "The host had no address, or did not answer",
  unavailable: "A secret could not be added to the request",
};

/** Why the gate refused an agent a host. */
export const refusalText = (reason: string): string => refusals[reason] ?? reason;
