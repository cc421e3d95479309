package functions_test

import (
	"io"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"agents.example/controlplane/functions/agentctl"
)

// checkAgentctl returns what is wrong with the command lines of agentctl in a shell command, or "". The tool may be
// part of a pipeline.
func checkAgentctl(command string) string {
	script, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil {
		return err.Error()
	}
	complaint := ""
	syntax.Walk(script, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && complaint == "" {
			complaint = checkCall(call)
		}
		return true
	})
	return complaint
}

// checkCall checks a command of a shell. It puts words in place of variables and substitutions.
func checkCall(call *syntax.CallExpr) string {
	words, err := expand.Fields(&expand.Config{
		Env: expand.FuncEnviron(func(name string) string { return "value-of-" + name }),
		CmdSubst: func(w io.Writer, _ *syntax.CmdSubst) error {
			_, err := io.WriteString(w, "output")
			return err
		},
	}, call.Args...)
	if err != nil {
		return err.Error()
	}
	if len(words) > 2 && words[0] == "go" && words[1] == "run" && strings.HasSuffix(words[2], "/agentctl") {
		words = words[2:]
	} else if len(words) == 0 || words[0] != "agentctl" {
		return ""
	}
	return checkArguments(words[1:])
}

// checkArguments reads arguments as the tool does: they name a command and flags that exist, and are as many as the
// command takes.
func checkArguments(args []string) string {
	root := (&agentctl.App{Stdout: io.Discard, Stderr: io.Discard}).Root()
	root.InitDefaultCompletionCmd(args...)
	c, rest, err := root.Find(args)
	if err != nil {
		return err.Error()
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if c.HasSubCommands() && c.Flags().NArg() > 0 {
		return c.CommandPath() + " has no command " + c.Flags().Arg(0)
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}

func TestCheckAgentctl_NamesFaults(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"agentctl agents list -o json | jq .":                          "",
		"go run ./functions/cmd/agentctl agents list":                  "",
		`KEY=1 agentctl keys revoke "$KEY_ID" --yes`:                   "",
		"agentctl agents lost":                                         "no command lost",
		"echo x | agentctl keys revoke":                                "wants KEY_ID",
		"agentctl agents list --lost":                                  "unknown flag",
		"id=$(agentctl keys list --lost)":                              "unknown flag",
		"go run ./functions/cmd/agentctl agents list --name x --extra": "unknown flag",
	} {
		if got := checkAgentctl(command); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
}
