// Package agentctl implements the command line tool of the control plane. It uses only the public API, through
// shared/client. Its output for programs goes to standard output, everything else to standard error.
package agentctl

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"charm.land/fang/v2"
	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// App is the tool with everything that it reads and writes.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Lookup returns the value of an environment variable.
	Lookup func(name string) (string, bool)
	// ConfigDir is the folder of the user's configuration files; the tool has a folder in it.
	ConfigDir string
}

// FromOS returns the tool for the process that runs it.
func FromOS() *App {
	dir, err := os.UserConfigDir()
	if err != nil {
		dir = "" // reported when a command needs it
	}
	return &App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Lookup: os.LookupEnv, ConfigDir: dir, //nolint:forbidigo // the tool's only access to the environment
	}
}

// Run executes a command line and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.Root()
	root.SetArgs(args)
	err := fang.Execute(ctx, root, fang.WithoutManpage(), fang.WithErrorHandler(a.printError))
	if ctx.Err() != nil && err != nil {
		return ExitInterrupted
	}
	return exitCode(err)
}

// tool is what the commands of one command line share.
type tool struct {
	app *App
	// flags that every command has
	profile, baseURL string
	output           format
	timeout          time.Duration
}

// Root returns the tree of commands.
func (a *App) Root() *cobra.Command {
	t := &tool{app: a, output: format{kind: formatTable}}
	root := &cobra.Command{
		Use:   "agentctl",
		Short: "Create, watch and change hosted agents",
		Long: "agentctl creates, watches and changes hosted agents. It reads AGENTS_BASE_URL and AGENTS_API_KEY, or " +
			"a profile that agentctl login has written.",
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			t.limitTime(cmd)
			return nil
		},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&t.profile, "profile", "", "use this profile instead of the current one")
	flags.StringVar(&t.baseURL, "base-url", "", "call the API at this URL")
	flags.VarP(&t.output, "output", "o", "table, json, yaml, name or jsonpath=TEMPLATE")
	flags.DurationVar(&t.timeout, "timeout", 0, "give up after this time, such as 90s; 0 for no limit")
	root.AddCommand(t.agentsCommand())
	return root
}

// limitTime applies the flag --timeout to a command.
func (t *tool) limitTime(cmd *cobra.Command) {
	if t.timeout <= 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), t.timeout, errTimeout)
	cobra.OnFinalize(cancel)
	cmd.SetContext(ctx)
}

// errTimeout is the cause of a context that --timeout ended.
var errTimeout = errors.New("the time limit of --timeout has passed")

// client returns the client of the API with the caller's token.
func (t *tool) client() (*client.Client, error) {
	base, _ := t.app.Lookup("AGENTS_BASE_URL")
	key, _ := t.app.Lookup("AGENTS_API_KEY")
	if t.baseURL != "" {
		base = t.baseURL
	}
	if base == "" || key == "" {
		return nil, errNoProfile
	}
	return client.New(base, client.StaticToken(key), client.WithUserAgent("agentctl"))
}
