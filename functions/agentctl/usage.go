package agentctl

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agents.example/controlplane/shared/client"
)

// usageError is a wrong command line.
type usageError struct{ error }

// Unwrap returns the error inside.
func (e usageError) Unwrap() error { return e.error }

// usagef returns the error of a wrong command line.
func usagef(text string, args ...any) error { return usageError{fmt.Errorf(text, args...)} }

// checkUsage makes every wrong command line a usageError that says what would be right. It completes a tree of
// commands.
func checkUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(wrongFlag)
	if c.HasSubCommands() && c.RunE == nil {
		c.Args, c.RunE = cobra.ArbitraryArgs, missingCommand
	} else if c.Args != nil {
		check := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error { return wrongArgs(cmd, args, check(cmd, args)) }
	}
	for _, sub := range c.Commands() {
		checkUsage(sub)
	}
}

// missingCommand is what a family of commands does without one of them. It does not repeat the arguments, which may be
// values that must stay secret.
func missingCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	c.SuggestionsMinimumDistance = 2
	return withSuggestions(usagef("%s has no such command", c.CommandPath()), c.SuggestionsFor(args[0]))
}

// addHelp adds cobra's commands help and completion to the root, which otherwise get no check of their arguments.
func addHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		c.Args = func(_ *cobra.Command, args []string) error {
			if found, rest, err := root.Find(args); found == nil || err != nil || len(rest) > 0 {
				return usagef("there is no help about this: %s help takes the name of a command", root.Name())
			}
			return nil
		}
	}
}

// wrongFlag explains an error in flags.
func wrongFlag(c *cobra.Command, err error) error {
	usage := usageError{err}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usage
	}
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		// The error repeats what follows the letter, which may be a value that must stay secret.
		return usagef("unknown flag: -%s", unknown.GetSpecifiedName())
	}
	names := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra suggests names of commands only
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: "--" + f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return withSuggestions(usage, names.SuggestionsFor("--"+unknown.GetSpecifiedName()))
}

func withSuggestions(err error, names []string) error {
	if len(names) == 0 {
		return err
	}
	return withNext(err, "Did you mean "+strings.Join(names, " or ")+"?")
}

// wrongArgs explains err, which an argument check has returned.
func wrongArgs(c *cobra.Command, args []string, err error) error {
	var usage usageError
	if err == nil || errors.As(err, &usage) {
		return err
	}
	// The error itself may repeat the arguments, which may be values that must stay secret.
	_, wanted, _ := strings.Cut(c.Use, " ")
	if wanted == "" {
		wanted = "no arguments"
	}
	return usagef("%s wants %s, but got %s", c.CommandPath(), wanted, argumentCount(args))
}

// argumentCount says how many arguments there are.
func argumentCount(args []string) string {
	switch len(args) {
	case 0:
		return "none"
	case 1:
		return "one"
	}
	return fmt.Sprintf("%d arguments", len(args))
}

// versionCommand does what the flag --version does: tools have either.
func (t *tool) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of the tool", Args: cobra.NoArgs, Example: "  agentctl version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(t.app.Stdout, "%s version %s\n", cmd.Root().Name(), cmd.Root().Version)
			return err
		},
	}
}

// version returns the version of the tool: that of the release that built it, or else what the go command knows.
func version() string {
	if v := client.Version(); v != "0.0.0" {
		return v
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
