package agentctl

import (
	"cmp"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl/profile"
)

func (t *tool) profilesCommand() *cobra.Command {
	c := &cobra.Command{Use: "profiles", Aliases: []string{"profile"}, Short: "Choose between several APIs and users"}
	c.AddCommand(t.listProfiles(), t.useProfile(), t.removeProfile())
	return c
}

// profileView is a profile without its credential.
type profileView struct {
	Name         string `json:"name"`
	Current      bool   `json:"current"`
	BaseURL      string `json:"base_url"`
	Credential   string `json:"credential"`
	User         string `json:"user,omitempty"`
	Organization string `json:"organization,omitempty"`
}

func (t *tool) listProfiles() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the profiles", Args: cobra.NoArgs,
		Long: "List the profiles that agentctl login has written. No credential is shown.",
		RunE: func(*cobra.Command, []string) error {
			file, err := t.store().Load()
			if err != nil {
				return err
			}
			views := []profileView{}
			for _, name := range file.Names() {
				p := file.Profiles[name]
				v := profileView{
					Name: name, Current: name == cmp.Or(file.Current, profile.DefaultName), BaseURL: p.BaseURL,
					Credential: p.Method(), Organization: p.Organization,
				}
				if p.Session != nil {
					v.User = cmp.Or(p.Session.Email, p.Session.Subject)
				}
				views = append(views, v)
			}
			return t.show(list(views, func(v profileView) string { return v.Name }, []column[profileView]{
				{"NAME", func(v profileView) string { return v.Name }},
				{"CURRENT", func(v profileView) string {
					if v.Current {
						return "yes"
					}
					return ""
				}},
				{"API", func(v profileView) string { return v.BaseURL }},
				{"CREDENTIAL", func(v profileView) string { return v.Credential }},
				{"USER", func(v profileView) string { return v.User }},
				{"ORGANIZATION", func(v profileView) string { return v.Organization }},
			}))
		},
	}
}

func (t *tool) useProfile() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a profile the current one", Args: cobra.ExactArgs(1),
		Long:    "Make a profile the one that commands use without --profile and AGENTS_PROFILE.",
		Example: "  agentctl profiles use staging", ValidArgsFunction: t.completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error { return t.store().Use(cmd.Context(), args[0]) },
	}
}

func (t *tool) removeProfile() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a profile with its credential",
		Args: cobra.ExactArgs(1), ValidArgsFunction: t.completeProfiles,
		Long: "Remove a profile with its credential from this machine. Run agentctl logout first to end its session " +
			"at the identity provider, too.",
		Example: "  agentctl profiles remove staging",
		RunE:    func(cmd *cobra.Command, args []string) error { return t.store().Remove(cmd.Context(), args[0]) },
	}
}

// completeProfiles completes the name of a profile.
func (t *tool) completeProfiles(
	_ *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := t.store().Load()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.Names(), cobra.ShellCompDirectiveNoFileComp
}
