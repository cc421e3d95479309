import type { Member } from "@agents.example/client/schema";
import { useMe } from "../account";
import { Button } from "../ui/button";
import { CopyButton } from "../ui/copy";
import { Icon } from "../ui/icons";
import { nameOf, roleName } from "./member-name";
import { type Column, RecordTable } from "./table";

interface Props {
  members: Member[];
  /** Why the person may not change anything. */
  readOnly: string | undefined;
  onRole: (member: Member) => void;
  onRemove: (member: Member) => void;
}

const lastAdmin = "An organization needs an admin. Make another member an admin first.";

export function MemberTable({ members, readOnly, onRole, onRemove }: Props) {
  const me = useMe();
  const admins = members.filter((member) => member.role === "admin").length;
  const refusal = (member: Member) => readOnly ?? (member.role === "admin" && admins === 1 ? lastAdmin : undefined);
  const columns: Column<Member>[] = [
    { head: "Person", cell: (member) => <Person member={member} own={member.user_id === me.sub} /> },
    { head: "Role", cell: (member) => <RoleBadge role={member.role} /> },
    {
      head: "User ID",
      cell: (member) => (
        <span class="with-copy">
          <code>{member.user_id}</code>
          <CopyButton text={member.user_id} what={`user ID of ${nameOf(member)}`} />
        </span>
      ),
    },
    {
      head: "Actions",
      actions: true,
      cell: (member) => (
        <>
          <Button unavailable={refusal(member)} onClick={() => onRole(member)}>
            {member.role === "admin" ? "Make a member" : "Make an admin"}
            <span class="visually-hidden"> ({nameOf(member)})</span>
          </Button>
          <Button icon="trash" unavailable={refusal(member)} onClick={() => onRemove(member)}>
            Remove<span class="visually-hidden"> {nameOf(member)}</span>
          </Button>
        </>
      ),
    },
  ];
  return (
    <>
      <RecordTable label="Members" columns={columns} rows={members} id={(member) => member.user_id} />
      {readOnly === undefined && admins > 1 ? null : (
        <p class="small quiet body-note">
          {readOnly ?? "The only admin cannot be removed or become a member. Make another member an admin first."}
        </p>
      )}
    </>
  );
}

function Person({ member, own }: { member: Member; own: boolean }) {
  return (
    <div class="stack-tight named">
      <span class="row tight">
        <strong>{nameOf(member)}</strong>
        {own ? (
          <span class="badge">
            <Icon name="user" />
            You
          </span>
        ) : null}
      </span>
      {member.email === null || member.name === null ? null : <span class="small quiet">{member.email}</span>}
    </div>
  );
}

function RoleBadge({ role }: { role: string }) {
  return (
    <span class={`badge ${role === "admin" ? "tone-busy" : ""}`}>
      <Icon name={role === "admin" ? "key" : "eye"} />
      {roleName(role)}
    </span>
  );
}
