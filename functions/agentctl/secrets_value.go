package agentctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"agents.example/controlplane/shared/client"
)

// maxValue is how many bytes a secret may have.
const maxValue = 64 << 10

// invalidError is a value that the API would refuse.
type invalidError struct{ error }

// Unwrap returns the error inside.
func (e invalidError) Unwrap() error { return e.error }

func invalidf(text string, args ...any) error { return invalidError{fmt.Errorf(text, args...)} }

// checkKey returns why a key is not valid; empty if it is. It does not repeat the key, which may be a value in the
// wrong place.
func checkKey(key string) string {
	if regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`).MatchString(key) {
		return ""
	}
	return "the key is not valid: use up to 128 letters, digits and underscores, and no digit at the start"
}

// checkValue returns why a value is not valid; empty if it is.
func checkValue(value string) string {
	switch {
	case value == "":
		return "the value is empty"
	case len(value) > maxValue:
		return fmt.Sprintf("the value is longer than %d bytes", maxValue)
	case !utf8.ValidString(value):
		return "the value is not text in UTF-8. Encode it, for example with base64"
	case strings.ContainsRune(value, 0):
		return "the value must not contain NUL characters"
	}
	return ""
}

// keyArgs checks the arguments AGENT KEY... of a command. It never repeats an argument, which may be a value.
func keyArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, arg := range args[min(1, len(args)):] {
			if strings.Contains(arg, "=") {
				return withNext(usagef("a value must not be an argument, because other users of this machine and the "+
					"shell's history can see it"), "The value was not sent. Write only the key, and pipe the value "+
					"to the command.", "If the value is in the shell's history now, replace it.")
			}
		}
		if len(args) < least || len(args) > most {
			return withNext(usagef("%s wants %s, but got %s", cmd.CommandPath(),
				strings.TrimPrefix(cmd.Use, cmd.Name()+" "), argumentCount(args)),
				"A value must not be an argument. Pipe it to the command.")
		}
		for _, key := range args[1:] {
			if why := checkKey(key); why != "" {
				return usagef("%s", why)
			}
		}
		return nil
	}
}

// valueSource is where the value of a secret comes from.
type valueSource struct{ file, variable string }

// read returns the value.
func (s valueSource) read(ctx context.Context, t *tool, key string) (string, error) {
	switch {
	case s.file != "" && s.variable != "":
		return "", usagef("use either --from-file or --from-env")
	case s.variable != "":
		value, ok := t.app.Lookup(s.variable)
		if !ok {
			return "", usagef("the environment variable of --from-env is not set")
		}
		return value, nil
	case s.file != "" && s.file != "-":
		text, err := readFile(s.file, maxValue)
		return withoutLineBreak(text), err
	case t.app.Terminal.In:
		return t.ask(ctx, "Value of "+key+" (hidden): ")
	}
	text, err := readAll(t.stdin, maxValue)
	return withoutLineBreak(text), err
}

// withoutLineBreak removes the line break that echo and editors add to a value of one line. A value of several lines,
// such as a certificate, stays as it is.
func withoutLineBreak(value string) string {
	line := strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
	if strings.ContainsAny(line, "\r\n") {
		return value
	}
	return line
}

// readFile returns the text of a file of at most most bytes, and one more.
func readFile(name string, most int) (string, error) {
	f, err := os.Open(name) //nolint:gosec // the user names the file
	if err != nil {
		return "", usageError{err}
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := readAll(f, most)
	if err != nil {
		return "", usageError{err} // a folder, for example
	}
	return text, nil
}

// readAll returns a text that is longer than most if there is more, so that a check of its length fails.
func readAll(r io.Reader, most int) (string, error) {
	// A value of one line may have a line break that does not count.
	b, err := io.ReadAll(io.LimitReader(r, int64(most)+3))
	if err != nil {
		return "", fmt.Errorf("the value cannot be read: %w", err)
	}
	return string(b), nil
}

// ask reads a line from the terminal without showing it.
func (t *tool) ask(ctx context.Context, prompt string) (string, error) {
	f, ok := t.app.Stdin.(*os.File)
	if !ok {
		return "", usagef("there is no terminal to ask for the value on: pipe it to the command")
	}
	fd := int(f.Fd()) //nolint:gosec // a file descriptor fits
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("the terminal cannot be used: %w", err)
	}
	fmt.Fprint(t.app.Stderr, prompt)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		read <- line{text, err}
	}()
	defer fmt.Fprintln(t.app.Stderr)
	select {
	case <-ctx.Done(): // the read ends with the process, so the terminal's state is restored here
		return "", errors.Join(context.Cause(ctx), term.Restore(fd, before))
	case l := <-read:
		if l.err != nil && !errors.Is(l.err, io.EOF) {
			return "", fmt.Errorf("the value cannot be read: %w", l.err)
		}
		if len(l.text) >= longestLine() {
			return "", invalidf("a terminal cuts lines as long as this value: pipe it, or use --from-file")
		}
		return string(l.text), nil
	}
}

// longestLine is how many bytes of a line a terminal passes on.
func longestLine() int {
	if runtime.GOOS == "linux" {
		return 4095
	}
	return 1023
}

// completeSecrets completes the agent, and then the keys of its secrets.
func (t *tool) completeSecrets(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return t.completeAgents(cmd, args, typed)
	}
	return t.fromAPI(cmd, func(ctx context.Context, api *client.Client) ([]cobra.Completion, error) {
		a, err := t.agent(ctx, api, args[0])
		if err != nil {
			return nil, err
		}
		secrets, err := api.ListSecrets(ctx, a.ID)
		keys := make([]cobra.Completion, len(secrets))
		for i, s := range secrets {
			keys[i] = s.Key
		}
		return keys, err
	})
}
