import type { Member } from "@agents.example/client/schema";

/** The name by which people know a member. */
export const nameOf = (member: Member): string => member.name ?? member.email ?? member.user_id;

export const roleName = (role: string): string => (role === "admin" ? "Admin" : role === "member" ? "Member" : role);
