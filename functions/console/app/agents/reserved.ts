const names =
  /^(PATH|PORT|API_SERVER_KEY|AGENT_(ID|NAME|URL|HOSTNAME|PLAN|MEMORY_BYTES|CONFIG_FILE)|(DASHBOARD|KUBERNETES|LD)_.*|.*_DASHBOARD_BASIC_AUTH_.*|.*_GATEWAY_TOKEN)$/i;

/**
 * Why a person may not set a variable, whose name is valid; undefined if they may. A test compares it with the service's
 * rule.
 */
export const reservedText = (key: string): string | undefined =>
  names.test(key) ? `${key} is reserved for the platform. Leave it out.` : undefined;
