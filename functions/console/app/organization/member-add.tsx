import type { Member } from "@agents.example/client/schema";
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { refreshLive } from "../api/live";
import { toast } from "../ui/announce";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Failure } from "../ui/feedback";
import { Select, TextField } from "../ui/field";
import { nameOf } from "./member-name";
import { useSubmit } from "../api/submit";
import { membersPath } from "./paths";

const maxID = 128;

/** The form of users' ids that the API accepts. */
const pattern = /^[A-Za-z0-9][A-Za-z0-9_.:|@-]{0,127}$/;

interface Input {
  id: string;
  role: string;
}

/** Makes a user of the identity provider a member. */
export function AddMember({ members, onClose }: { members: Member[]; onClose: () => void }) {
  const [id, setID] = useState("");
  const [role, setRole] = useState("member");
  const [checked, setChecked] = useState(false);
  const addition = useSubmit<Input>(async (intent, input) => {
    const path = `${membersPath}/${encodeURIComponent(input.id)}`;
    const { data } = await call<Member>(path, { method: "PUT", body: { role: input.role }, intent });
    toast(`${nameOf(data)} is ${data.role === "admin" ? "an admin" : "a member"} now.`);
    refreshLive(membersPath);
    onClose();
  });
  const trimmed = id.trim();
  // To add a person again would set another role without a question. After a failure, the person may have been added.
  const known = addition.error ? undefined : members.find((member) => member.user_id === trimmed);
  const wrong = known !== undefined ? already(known) : pattern.test(trimmed) ? undefined : wrongID(trimmed);
  const submit = async () => {
    setChecked(true);
    if (wrong === undefined) {
      await addition.send({ id: trimmed, role });
    }
  };
  const unknown = addition.error?.code === "member_not_found";
  return (
    <Dialog
      title="Add a member"
      onClose={onClose}
      onSubmit={submit}
      typed={id !== ""}
      action={
        <Button kind="primary" type="submit" busy={addition.busy}>
          Add
        </Button>
      }
    >
      <TextField
        label="User ID"
        value={id}
        onInput={(value) => {
          setID(value);
          addition.forget();
        }}
        mono
        required
        autofocus
        maxLength={maxID}
        wrong={checked && wrong !== undefined ? [wrong] : unknown ? [notFound] : []}
        hint={
          <>
            The person’s ID at the identity provider, which is the <code>sub</code> claim of their tokens. The
            provider’s list of users has it, and the console shows it to people who have no organization.
          </>
        }
      />
      <Select
        label="Role"
        value={role}
        options={[
          { value: "member", label: "Member (can look)" },
          { value: "admin", label: "Admin (can do everything)" },
        ]}
        onChange={setRole}
      />
      {addition.error === undefined || unknown ? null : (
        <Failure error={addition.error} retry="submit" busy={addition.busy} />
      )}
    </Dialog>
  );
}

const notFound =
  "No user has this ID, or the user belongs to another organization. " +
  "The person needs an account at the identity provider first.";

const already = (member: Member): string =>
  `${nameOf(member)} is ${member.role === "admin" ? "an admin" : "a member"} already. Change the role in the list.`;

const wrongID = (id: string): string =>
  id === ""
    ? "Enter the ID of the person."
    : "An ID begins with a letter or digit and has no spaces. An email address works only if it is the ID.";
