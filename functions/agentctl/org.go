package agentctl

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// whoamiCommand shows who the token belongs to.
func (t *tool) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show the user or API key that you are signed in with", Args: cobra.NoArgs,
		Long:        "Show the user or API key that the tool sends, its role, and its organization.",
		Example:     "  agentctl whoami\n  agentctl whoami -o jsonpath='{.organization.plan}'",
		Annotations: sends("GetMe"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			me, err := api.GetMe(ctx)
			if err != nil {
				return err
			}
			return t.show(object(me, me.ID, describeMe(me)))
		}),
	}
}

func describeMe(me *client.Me) []field {
	fields := []field{{"User", textOr(me.Email, "")}, {"Name", textOr(me.Name, "")}}
	if k := me.APIKey; k != nil {
		fields = []field{{"API key", fmt.Sprintf("%s (%s…)", k.Name, k.KeyPrefix)}}
	}
	fields = append(fields, field{"ID", me.ID}, field{"Role", textOr(me.Role, "")})
	if o := me.Organization; o != nil {
		return append(fields, field{"Organization", o.ID}, field{"Plan", string(o.Plan)})
	}
	return append(fields, field{"Organization", "none is active: choose one and sign in again"})
}

// orgCommand shows the organization.
func (t *tool) orgCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "org", Aliases: []string{"organization"}, Args: cobra.NoArgs,
		Short:       "Show the organization: its plan, limits and usage",
		Long:        "Show the active organization: its plan, its status, and how much of each limit it uses.",
		Example:     "  agentctl org\n  agentctl org -o jsonpath='{.usage.agents}/{.limits.agents}'",
		Annotations: sends("GetCurrentOrganization"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			o, err := api.GetCurrentOrganization(ctx)
			if err != nil {
				return err
			}
			return t.show(result{value: o, names: []string{o.ID}, table: func(w io.Writer) error {
				return printOrganization(asScreen(w), o)
			}})
		}),
	}
	c.AddCommand(t.updateOrg())
	return c
}

// updateOrg changes the settings of the organization.
func (t *tool) updateOrg() *cobra.Command {
	var exec, etag string
	var egress egressFlags
	c := &cobra.Command{
		Use: "update", Short: "Change the settings of the organization", Args: cobra.NoArgs,
		Long: "Change the settings of the organization. What has no flag stays as it is. The egress is that of new " +
			"agents; those that exist keep what they have.",
		Example: "  agentctl org update --exec off\n" +
			"  agentctl org update --egress-mode allow_list --egress-allow 'api.openai.com,*.github.com'",
		Annotations: sends("UpdateCurrentOrganization"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			change := client.UpdateCurrentOrganizationRequest{
				Exec: (*client.ExecSetting)(given(exec)), Egress: egress.spec(),
			}
			if change.Exec == nil && change.Egress == nil {
				return usagef("there is nothing to change: use --exec, --egress-mode, --egress-allow or --egress-deny")
			}
			var options []client.CallOption
			if etag != "" {
				options = append(options, client.IfMatch(etag))
			}
			o, err := api.UpdateCurrentOrganization(ctx, change, options...)
			if err != nil {
				return err
			}
			return t.show(object(o, o.ID, []field{
				{"ID", o.ID}, {"Exec", execText(o.Exec)}, {"Egress", "new agents: " + egressText(o.Egress)},
			}))
		}),
	}
	c.Flags().StringVar(&exec, "exec", "", "`who` may enter the containers of agents: admins, or off for no one")
	completeWith(c, "exec", "admins", "off")
	egress.add(c, "egress-")
	c.Flags().Var((*etagValue)(&etag), "if-match", "fail unless the settings are those of the version with this `ETAG`")
	return c
}

func execText(setting client.ExecSetting) string {
	if setting == client.ExecSettingOff {
		return "no one may enter them"
	}
	return "admins may enter them"
}

// printOrganization prints an organization with its usage, on a terminal with bars.
func printOrganization(w screen, o *client.Organization) error {
	fields := []field{
		{"ID", o.ID},
		{"Plan", string(o.Plan)},
		{"Status", string(o.Status)},
		{"Exec", execText(o.Exec)},
		{"Egress", "new agents: " + egressText(o.Egress)},
	}
	if o.GraceEndsAt != nil {
		fields = append(fields, field{"Payment", "overdue; running agents are paused on " + day(o.GraceEndsAt, "")})
	}
	if err := object(o, o.ID, fields).table(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	used, most := o.Usage, o.Limits
	return printTable(w, []limit{
		{"Agents", float64(used.Agents), float64(most.Agents), short},
		{"API keys", float64(used.APIKeys), float64(most.APIKeys), short},
		{"CPU cores", used.CPUCores, most.CPUCores, short},
		{"Memory", float64(used.MemoryBytes), float64(most.MemoryBytes), bytesText},
		{"Storage", float64(used.StorageBytes), float64(most.StorageBytes), bytesText},
	}, []column[limit]{
		{"LIMIT", func(l limit) string { return l.name }},
		{"USED", func(l limit) string { return l.unit(l.used) }},
		{"OF", func(l limit) string { return l.unit(l.most) }},
		{"SHARE", func(l limit) string { return w.share(l.used, l.most) }},
	})
}

// limit is a limit of an organization and how much of it is used.
type limit struct {
	name       string
	used, most float64
	unit       func(float64) string
}

// share shows a part of a whole in percent, on a terminal with a bar.
func (s screen) share(part, whole float64) string {
	if whole <= 0 {
		return ""
	}
	text := fmt.Sprintf("%3.0f%%", part/whole*100)
	if s.terminal {
		text += "  " + s.bar(part/whole)
	}
	return text
}

// barWidth is how many characters a full bar has.
const barWidth = 20

// bar draws a share between 0 and 1.
func (s screen) bar(share float64) string {
	filled, empty := "█", "░"
	if !s.unicode {
		filled, empty = "#", "."
	}
	full := int(math.Round(min(max(share, 0), 1) * barWidth))
	if share > 0 {
		full = max(full, 1) // a little is not nothing
	}
	return strings.Repeat(filled, full) + strings.Repeat(empty, barWidth-full)
}
