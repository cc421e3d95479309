// Command manpages writes the manual pages of agentctl to a folder. It is no command of agentctl, because the libraries
// that it needs would double the work of every start of the tool.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"agents.example/controlplane/functions/agentctl"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

// run writes the pages to the folder that is the only argument.
func run(args []string) error {
	if len(args) != 1 {
		return errors.New("name one folder for the pages")
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	root := (&agentctl.App{}).Root()
	root.DisableAutoGenTag = true // the pages need no note on the library
	removeCompletion(root)
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "agentctl", Manual: "agentctl"}, args[0])
}

// removeCompletion removes the command whose help is about shells and not about agents.
func removeCompletion(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			root.RemoveCommand(c)
		}
	}
}
