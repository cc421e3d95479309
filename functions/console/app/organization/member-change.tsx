import type { Member, SetMemberRequest } from "@agents.example/client/schema";
import { useMe } from "../account";
import { call } from "../api/client";
import { refreshLive } from "../api/live";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Failure, Notice } from "../ui/feedback";
import { SubmitFailure } from "../ui/submit-failure";
import { nameOf } from "./member-name";
import { useSubmit } from "../api/submit";
import { membersPath } from "./paths";

interface Props {
  member: Member;
  onClose: () => void;
}

const pathOf = (id: string): string => `${membersPath}/${encodeURIComponent(id)}`;

/** Asks before a member gets the other role. */
export function ChangeRole({ member, onClose }: Props) {
  const role = member.role === "admin" ? "member" : "admin";
  const name = nameOf(member);
  const own = useMe().sub === member.user_id;
  const change = useSubmit<SetMemberRequest>(async (intent, body) => {
    await call<Member>(pathOf(member.user_id), { method: "PUT", body, intent });
    toast(`${name} is ${role === "admin" ? "an admin" : "a member"} now.`);
    refreshLive(membersPath);
    onClose();
  });
  const submit = () => void change.send({ role });
  return (
    <Dialog
      title={role === "admin" ? `Make ${name} an admin?` : `Make ${name} a member?`}
      onClose={onClose}
      action={
        <Button kind={role === "admin" ? "primary" : "danger"} busy={change.busy} onClick={submit}>
          {role === "admin" ? "Make an admin" : "Make a member"}
        </Button>
      }
    >
      {role === "admin" ? (
        <p>
          Admins can create and delete agents, see their credentials, create API keys, change the plan and manage
          members. The new role counts from the person’s next sign-in.
        </p>
      ) : (
        <p>
          Members can look, but not change anything. <SessionsEnd own={own} />
        </p>
      )}
      {own ? <Own>You cannot make yourself an admin again: another admin must do it.</Own> : null}
      {change.error === undefined ? null : <Failure error={change.error} retry={submit} busy={change.busy} />}
    </Dialog>
  );
}

/** Asks before a person loses access to the organization. */
export function RemoveMember({ member, onClose }: Props) {
  const name = nameOf(member);
  const own = useMe().sub === member.user_id;
  const removal = useSubmit(async (intent) => {
    await call(pathOf(member.user_id), { method: "DELETE", intent });
    toast(`${name} is removed.`);
    refreshLive(membersPath);
    onClose();
  });
  const submit = () => void removal.send();
  return (
    <Dialog
      title={own ? "Leave the organization?" : `Remove ${name}?`}
      onClose={onClose}
      action={
        <Button kind="danger" icon="trash" busy={removal.busy} onClick={submit}>
          {own ? "Leave" : "Remove"}
        </Button>
      }
    >
      <p>
        <SessionsEnd own={own} /> Agents are not affected.
      </p>
      {own ? <Own>You cannot return by yourself: another admin must add you again.</Own> : null}
      <SubmitFailure submit={removal} title={own ? "You did not leave the organization" : `${name} was not removed`} />
    </Dialog>
  );
}

function SessionsEnd({ own }: { own: boolean }) {
  return (
    <>
      {own ? "Your sessions end" : "The person’s sessions end"}, and a token that was issued before is valid until it
      expires, usually within an hour. API keys that {own ? "you" : "they"} created stay valid: revoke those that are
      not needed.
    </>
  );
}

function Own({ children }: { children: string }) {
  return (
    <Notice tone="warn" title="This is you">
      {children}
    </Notice>
  );
}
