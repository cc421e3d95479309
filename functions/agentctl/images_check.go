package agentctl

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl/imagecheck"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// checkImage runs an image on this machine as agents run it.
func (t *tool) checkImage() *cobra.Command {
	o := imagecheck.Options{Start: 5 * time.Minute, Grace: image.DefaultGraceSeconds * time.Second}
	size := string(plan.Hobby)
	c := &cobra.Command{
		Use:   "check FILE|REFERENCE",
		Short: "Check on this machine whether agents can run an image",
		Args:  cobra.ExactArgs(1),
		Long: "Run an image with docker or podman as agents run it, and say what it would not survive: its user, the " +
			"platform, the read-only file system, the port, its memory, writes outside of /data and /tmp, and " +
			"SIGTERM. The argument is a file that docker save wrote, or a reference. Nothing is sent to the control " +
			"plane. The exit code is 7 if agents cannot run the image.",
		Example: "  docker save my-agent:dev -o agent.tar\n  agentctl images check agent.tar\n" +
			"  agentctl images check my-agent:dev --plan starter --health-path /healthz",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Image = args[0]
			limits, err := plan.Get(plan.ID(size))
			if err != nil {
				return usagef("--plan: %v", err)
			}
			if err := image.CheckPort(o.Port); err != nil {
				return usagef("--port: %v", err)
			}
			for _, variable := range o.Env {
				if key, _, ok := strings.Cut(variable, "="); !ok || key == "" {
					return usagef("--env: want KEY=VALUE, not %q", variable)
				}
			}
			o.MemoryMiB, o.CPUs = int(limits.MemoryLimitMiB), limits.CPUCores()
			r, err := imagecheck.Run(cmd.Context(), o, func(step string) { fmt.Fprintln(t.app.Stderr, step) })
			if err != nil {
				return err
			}
			if err := t.show(
				result{value: r, table: func(w io.Writer) error { return printReport(w, r) }},
			); err != nil {
				return err
			}
			if !r.OK() {
				return invalidError{errUnfit}
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVar(&size, "plan", size, "the `plan` whose limits the image gets")
	flags.IntVar(&o.Port, "port", dataplane.DefaultAgentPort, "the `port` that the image gets as $PORT")
	flags.StringVar(
		&o.HealthPath,
		"health-path",
		"",
		"the `path` that the image answers with status 200 once it serves",
	)
	flags.StringArrayVar(&o.Env, "env", nil, "a variable, as `KEY=VALUE`; may be repeated")
	flags.StringVar(&o.Engine, "engine", "", "docker or podman; by default, the one that is installed")
	flags.DurationVar(&o.Start, "start", o.Start, "how long the image may take until it serves")
	completeWith(c, "plan", plan.ID("").Values()...)
	completeWith(c, "engine", "docker", "podman")
	return c
}

// errUnfit is the error about an image that agents cannot run.
var errUnfit = errors.New("agents cannot run this image")

func printReport(w io.Writer, r imagecheck.Report) error {
	var b strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-9s %s\n", c.Result, c.Name, strings.ReplaceAll(harmlessLines(c.Found), "\n", "\n  | "))
		if c.Advice != "" {
			fmt.Fprintf(&b, "%18s %s\n", "", c.Advice)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
