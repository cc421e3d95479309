const names = [
  "PATH|PORT|API_SERVER_KEY|AGENT_(ID|NAME|URL|HOSTNAME|PLAN|MEMORY_BYTES|CONFIG_FILE|CLONE_OF)",
  "(DASHBOARD|KUBERNETES|LD)_.*|.*_DASHBOARD_BASIC_AUTH_.*|.*_GATEWAY_TOKEN",
];
const form = new RegExp(`^(${names.join("|")})$`, "i");

/**
 * Why a person may not set a variable, whose name is valid; undefined if they may. A test compares it with the rule of
 * the service.
 */
export const reservedText = (key: string): string | undefined =>
  form.test(key) ? `${key} is reserved for the platform. Leave it out.` : undefined;
