import type { Option } from "../ui/field";

/** What keys are for, most common first. */
export const purposes: Option[] = [
  { value: "script", label: "A script" },
  { value: "ci", label: "Continuous integration" },
  { value: "sdk", label: "An application with an SDK" },
  { value: "mcp", label: "An MCP client" },
  { value: "playground", label: "The API playground" },
  { value: "other", label: "Something else" },
];

export const purposeText = (purpose: string): string =>
  purpose === "other" ? "Other purpose" : (purposes.find((known) => known.value === purpose)?.label ?? purpose);

/** What keys may do. */
export const roles: Option[] = [
  { value: "admin", label: "Admin: everything" },
  { value: "member", label: "Member: only read" },
];

export const roleText = (role: string): string =>
  role === "admin" ? "Admin" : role === "member" ? "Member, only reads" : role;

/** How long keys last, in days; "" is forever. */
export const lifetimes: Option[] = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "180", label: "180 days" },
  { value: "365", label: "1 year" },
  { value: "", label: "Does not expire" },
];
