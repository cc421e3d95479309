import type { Member } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { useMe, useReadOnly } from "../account";
import { useLive } from "../api/live";
import { useTitle } from "../router";
import { Button } from "../ui/button";
import { Failure, Following, Notice } from "../ui/feedback";
import { plural } from "../ui/format";
import { AddMember } from "./member-add";
import { ChangeRole, RemoveMember } from "./member-change";
import { MemberTable } from "./member-table";
import { membersPath } from "./paths";

const every = 15_000;

type Open = { kind: "add" } | { kind: "role" | "remove"; member: Member } | undefined;

/** The people of the organization, and what they may do. */
export function MembersPage() {
  useTitle("Members");
  const live = useLive<Member[]>(membersPath, { every });
  const readOnly = useReadOnly();
  const [open, setOpen] = useState<Open>();
  const elsewhere = live.error?.code === "members_managed_elsewhere";
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Members</h1>
        <span class="actions">
          <Button
            kind="primary"
            icon="plus"
            unavailable={elsewhere ? "Members are managed at the identity provider." : readOnly}
            onClick={() => setOpen({ kind: "add" })}
          >
            Add a member
          </Button>
        </span>
      </div>
      <p class="quiet lead">
        Admins can do everything. Members can look at agents, metrics, logs and usage, but cannot change anything or see
        credentials.
      </p>
      {elsewhere && live.error !== undefined ? (
        <ManagedElsewhere message={live.error.message} />
      ) : live.data === undefined && live.error?.status === 403 ? (
        <Failure error={live.error} retry={live.refresh} title="The list of members cannot be shown" />
      ) : (
        <Following live={live} what="the members">
          {(members) => (
            <section class="card">
              <div class="head">
                <h2>{plural(members.length, "person", "people")}</h2>
              </div>
              <MemberTable
                members={members}
                readOnly={readOnly}
                onRole={(member) => setOpen({ kind: "role", member })}
                onRemove={(member) => setOpen({ kind: "remove", member })}
              />
            </section>
          )}
        </Following>
      )}
      <Dialogs open={open} members={live.data ?? []} onClose={() => setOpen(undefined)} />
    </>
  );
}

function Dialogs({ open, members, onClose }: { open: Open; members: Member[]; onClose: () => void }) {
  switch (open?.kind) {
    case "add":
      return <AddMember members={members} onClose={onClose} />;
    case "role":
      return <ChangeRole key={open.member.user_id} member={open.member} onClose={onClose} />;
    case "remove":
      return <RemoveMember key={open.member.user_id} member={open.member} onClose={onClose} />;
    default:
      return null;
  }
}

/** The service cannot list or change members: the identity provider has them. */
function ManagedElsewhere({ message }: { message: string }) {
  const me = useMe();
  return (
    <Notice tone="idle" title="Members are managed at your identity provider">
      <p>
        <Linked text={message} />
      </p>
      <p class="quiet">
        This service learns a person’s organization and role from their session.
        Yours says that you are {me.role === "admin" ? "an admin" : "a member"} of {me.organization?.id}. A change there
        takes effect when the person signs in again, or when their session is renewed.
      </p>
    </Notice>
  );
}

/** A text whose addresses are links. */
function Linked({ text }: { text: string }) {
  return (
    <>
      {text.split(/(https?:\/\/[^\s,]*[^\s,.])/).map((part, i) =>
        i % 2 === 0 ? part : (
          <a key={part} href={part} target="_blank" rel="noreferrer">
            {part}
          </a>
        ),
      )}
    </>
  );
}
