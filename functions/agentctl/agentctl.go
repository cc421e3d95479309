// Package agentctl implements the command line tool of the control plane. It uses only the public API, through
// shared/client. Its output for programs goes to standard output, everything else to standard error.
package agentctl

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// App is the tool with everything that it reads and writes.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says which of them are terminals.
	Terminal Terminal
	// Lookup returns the value of an environment variable.
	Lookup func(name string) (string, bool)
	// ConfigDir is the folder of the user's configuration files; the tool has a folder in it.
	ConfigDir string
	// Open opens a URL in the user's browser.
	Open func(url string) error
	// OpenTime is how long a browser may take to read a file after Open has returned.
	OpenTime time.Duration
	// Now returns the time.
	Now func() time.Time
}

// FromOS returns the tool for the process that runs it.
func FromOS() *App {
	dir, err := os.UserConfigDir()
	if err != nil {
		dir = "" // reported when a command needs it
	}
	return &App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Terminal: terminalOf(os.Stdin, os.Stdout, os.Stderr),
		Lookup: os.LookupEnv, ConfigDir: dir, //nolint:forbidigo // the tool's only access to the environment
		Open: openBrowser, OpenTime: openTime, Now: time.Now,
	}
}

// openTime is enough for a browser that has to start.
const openTime = 10 * time.Second

// Run executes a command line and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	own := *a
	out := &checkedOutput{Writer: a.Stdout}
	own.Stdout = out
	t, root := own.tool()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = out.result(err)
	cause := context.Cause(cmd.Context())
	t.cancel()
	if err == nil {
		return ExitOK
	}
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(cause, errTimeout) {
		err = withNext(t.timedOut(err), nextSteps(err)...)
	}
	if exit, ok := errors.AsType[remoteExit](err); ok {
		return exit.code
	}
	interrupted := ctx.Err() != nil
	t.printError(cmd, err, interrupted)
	if interrupted {
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
	color            string
	// stdin is standard input until the command's context ends.
	stdin io.Reader
	// stdinRead is true once a flag has read standard input to its end.
	stdinRead bool
	// notes is held while a note is printed.
	notes sync.Mutex
	// cancel ends the context that limitTime has made.
	cancel context.CancelFunc
}

// Root returns the tree of commands.
func (a *App) Root() *cobra.Command {
	_, root := a.tool()
	return root
}

// tool returns the tree of commands and what they share.
func (a *App) tool() (*tool, *cobra.Command) {
	t := &tool{app: a, output: format{kind: formatTable}, cancel: func() {}}
	root := &cobra.Command{
		Use:   "agentctl",
		Short: "Create, watch and change hosted agents",
		Long: "agentctl creates, watches and changes hosted agents. It reads AGENTS_BASE_URL and AGENTS_API_KEY, or " +
			"a profile that agentctl login has written.",
		SilenceErrors: true, SilenceUsage: true, Version: version(),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			t.limitTime(cmd)
			t.stdin = endingReader{cmd.Context(), a.Stdin}
			if err := cmd.ValidateFlagGroups(); err != nil {
				return usageError{err} // cobra's own check comes later, and its error is no usageError
			}
			return t.checkColor()
		},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&t.profile, "profile", "", "use this profile instead of the current one")
	flags.StringVar(&t.baseURL, "base-url", "", "call the API at this `URL`")
	flags.VarP(&t.output, "output", "o", "`format`: table, json, yaml, name or jsonpath=TEMPLATE")
	flags.DurationVar(&t.timeout, "timeout", 0, "give up after this time, such as 90s; 0 for no limit")
	flags.StringVar(&t.color, "color", colorAuto, "`when` to color the output: auto, always or never")
	completeWith(root, "output", formatTable, formatJSON, formatYAML, formatName, formatJSONPath+"=")
	completeWith(root, "color", colorAuto, colorAlways, colorNever)
	root.AddCommand(t.agentsCommand(), t.applyCommand(), t.exportCommand(), exitCodesTopic())
	root.AddCommand(t.secretsCommand(), t.credentialsCommand(), t.egressCommand(),
		t.schedulesCommand(), t.snapshotsCommand())
	root.AddCommand(
		t.imagesCommand(),
		t.keysCommand(),
		t.orgCommand(),
		t.whoamiCommand(),
		t.membersCommand(),
		t.billingCommand(),
	)
	root.AddCommand(t.auditCommand(), t.eventsCommand(), t.webhooksCommand(), t.apiCommand(), t.verifyReceipt())
	root.AddCommand(t.loginCommand(), t.logoutCommand(), t.profilesCommand(), t.versionCommand())
	addHelp(root)
	checkUsage(root)
	return t, root
}

// limitTime applies the flag --timeout to a command.
func (t *tool) limitTime(cmd *cobra.Command) {
	if t.timeout <= 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), t.timeout, errTimeout)
	t.cancel = cancel
	cmd.SetContext(ctx)
}

// errTimeout is the cause of a context that --timeout ended.
var errTimeout error = timeoutError{}

type timeoutError struct{}

// Error implements error.
func (timeoutError) Error() string { return "the time limit of --timeout has passed" }

// Unwrap makes the cause a context's error, because package net/http returns the cause in its place.
func (timeoutError) Unwrap() error { return context.DeadlineExceeded }
