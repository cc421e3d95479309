package agentctl

import (
	"context"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// membersCommand is the family of commands for the members of the organization.
func (t *tool) membersCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "members", Aliases: []string{"member"}, Short: "List, add, change and remove the organization's members",
	}
	c.AddCommand(t.listMembers(), t.setMember(), t.removeMember())
	return c
}

func memberColumns() []column[client.Member] {
	return []column[client.Member]{
		{"USER ID", func(m client.Member) string { return m.UserID }},
		{"EMAIL", func(m client.Member) string { return textOr(m.Email, "-") }},
		{"NAME", func(m client.Member) string { return textOr(m.Name, "-") }},
		{"ROLE", func(m client.Member) string { return string(m.Role) }},
	}
}

func memberID(m client.Member) string { return m.UserID }

func (t *tool) listMembers() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the members", Args: cobra.NoArgs,
		Long:        "List the members of the organization with their roles.",
		Example:     "  agentctl members list\n  agentctl members list -o jsonpath='{[*].email}'",
		Annotations: sends("ListMembers"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			members, err := api.ListMembers(ctx)
			if err != nil {
				return err
			}
			return t.show(list(members, memberID, memberColumns()))
		}),
	}
}

func (t *tool) setMember() *cobra.Command {
	role := string(client.RoleMember)
	c := &cobra.Command{
		Use: "set USER_ID", Short: "Add a member, or change a member's role", Args: cobra.ExactArgs(1),
		Long: "Add a user to the organization, or change a member's role. The id is the user's id at the identity " +
			"provider. The change takes effect with the user's next session token.",
		Example:     "  agentctl members set kG7x2mQ0dVfU --role admin",
		Annotations: sends("SetMember"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, args []string) error {
			m, err := api.SetMember(ctx, args[0], client.SetMemberRequest{Role: client.Role(role)})
			if err != nil {
				return err
			}
			return t.show(object(m, m.UserID, []field{
				{"User ID", m.UserID},
				{"Email", textOr(m.Email, "")},
				{"Name", textOr(m.Name, "")},
				{"Role", string(m.Role)},
			}))
		}),
	}
	c.Flags().StringVar(&role, "role", role, "member or admin")
	completeWith(c, "role", "member", "admin")
	return c
}

func (t *tool) removeMember() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "remove USER_ID", Short: "Remove a member", Args: cobra.ExactArgs(1),
		Long:        "Remove a member from the organization. The member's session token works until it expires.",
		Example:     "  agentctl members remove kG7x2mQ0dVfU --yes",
		Annotations: sends("RemoveMember"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, args []string) error {
			if err := t.confirm(yes, "Remove %s from the organization?", args[0]); err != nil {
				return err
			}
			if err := api.RemoveMember(ctx, args[0]); err != nil {
				return err
			}
			t.note("Removed %s from the organization.", args[0])
			return nil
		}),
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return c
}
