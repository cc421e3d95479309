/** What a person calls the fields of an agent that change. Their names are those of the API. */
const names: Record<string, string> = {
  "name": "name",
  "resource_plan": "plan",
  "config": "configuration",
  "config.sandbox_enabled": "sandbox",
  "sandbox_enabled": "sandbox",
  "image": "image",
  "image_policy": "updates of its image",
  "image.policy": "updates of its image",
  "maintenance_window": "time of updates",
  "image.maintenance_window": "time of updates",
  "env_vars": "variables",
  "files": "files",
  "public_paths": "public paths",
  "schedules": "schedules",
  "wake_at": "time to wake it",
  "sleep": "sleep",
  "credentials": "credentials",
  "status": "status",
  "role": "role",
  "plan": "plan",
  "exec": "commands and terminals",
  "descendants": "keys that it created",
  "program": "program",
  "arguments": "number of arguments",
  "exit_code": "exit code",
  "input_bytes": "bytes sent",
  "output_bytes": "bytes received",
  "duration_ms": "milliseconds",
  "path": "path",
  "volume": "data",
};

/** Names of members of a list, such as env_vars.LOG_LEVEL. */
const members: Record<string, string> = {
  env_vars: "variable",
  secrets: "secret",
  files: "file",
  schedules: "schedule",
  snapshots: "snapshot",
};

/** A field in words. A field that the console does not know has its own name, with spaces. */
export function fieldText(field: string): string {
  const [, list = "", member = ""] = /^(\w+)\.(.*)$/.exec(field) ?? [];
  const known = names[field];
  return known ?? (list in members ? `${members[list]} ${member}` : field.replaceAll(/[_.]/g, " "));
}

/** The fields that only the control plane writes. */
export const ownFields = [
  "dashboard_username",
  "hostname",
  "config.error",
  "config.status_reason",
  "dashboard_warming",
  "credential_rotation_pending",
];
