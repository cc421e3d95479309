package agentctl

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/image"
)

// imagesCommand lists what agents can run. As other nouns have the verb list, it is understood here, too.
func (t *tool) imagesCommand() *cobra.Command {
	c, verb := t.listImages(), t.listImages()
	verb.Use, verb.Aliases, verb.Hidden = "list", nil, true
	c.AddCommand(verb, t.checkImage())
	return c
}

func (t *tool) listImages() *cobra.Command {
	return &cobra.Command{
		Use:     "images",
		Aliases: []string{"image"},
		Short:   "List the images that agents can run",
		Args:    cobra.NoArgs,
		Long: "List the images that agents can run, each with its versions, the newest first. An agent is created " +
			"with one: agentctl agents create NAME --image IMAGE",
		Example: "  agentctl images\n  agentctl images -o json | jq -r '.[].id'",

		Annotations: sends("ListImages"),
		RunE: t.calling(func(ctx context.Context, api *client.Client, _ []string) error {
			images, err := api.ListImages(ctx)
			if err != nil {
				return err
			}
			rows := versionsOf(images)
			shown := list(rows, func(v imageVersion) string { return v.selection() }, []column[imageVersion]{
				{"IMAGE", func(v imageVersion) string { return v.image.ID }},
				{"VERSION", func(v imageVersion) string { return v.Version }},
				{"STATE", imageVersion.state},
				{"MIN PLAN", func(v imageVersion) string { return textOr(v.image.MinPlan, "") }},
				{"KERNEL", func(v imageVersion) string { return string(v.image.Kernel) }},
				{"NAME", func(v imageVersion) string { return v.image.Name }},
				{"NOTES", func(v imageVersion) string { return firstLine(v.Notes) }},
			})
			shown.value = images
			return t.show(shown)
		}),
	}
}

// firstLine is what a table shows of notes; -o json has all of them.
func firstLine(text string) string {
	line, rest, _ := strings.Cut(text, "\n")
	if rest != "" {
		line += " …"
	}
	return line
}

// imageVersion is a row of the list of images.
type imageVersion struct {
	client.ImageVersion
	image client.Image
}

func versionsOf(images []client.Image) (rows []imageVersion) {
	for _, i := range images {
		for _, v := range i.Versions {
			rows = append(rows, imageVersion{v, i})
		}
	}
	return rows
}

func (v imageVersion) selection() string { return v.image.ID + "@" + v.Version }

// state says whether agents take the version by default.
func (v imageVersion) state() string {
	if v.Version == v.image.DefaultVersion {
		return "default"
	}
	return string(v.State)
}

// imageOf names what an agent runs, for a list.
func imageOf(a client.Agent) string {
	if a.Image == nil {
		return ""
	}
	return a.Image.ID + "@" + a.Image.Version
}

// describeImage lists what an agent runs.
func describeImage(a *client.Agent) []field {
	i := a.Image
	if i == nil {
		return nil
	}
	text := imageOf(*a)
	if i.AvailableVersion != nil {
		text += " (" + *i.AvailableVersion + " is available)"
	}
	fields := []field{{"Image", text}}
	if i.Digest != nil {
		fields = append(fields, field{"Digest", *i.Digest})
	}
	policy := string(i.Policy)
	if w := i.MaintenanceWindow; w != nil {
		days := make([]string, len(w.Days))
		for n, day := range w.Days {
			days[n] = string(day)
		}
		policy += fmt.Sprintf(" (%s %s for %d h, %s)", strings.Join(days, ", "), w.Start, w.Hours, w.Timezone)
	}
	return append(fields, field{"Updates", policy})
}

// imageFlags are the flags that change an agent's image and when it takes another version.
type imageFlags struct {
	image, policy, window string
	noWindow              bool
}

func (f *imageFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.image, "image", "",
		"another version of the agent's image: `IMAGE`, IMAGE@VERSION, or the reference of a custom image")
	c.Flags().StringVar(&f.policy, "image-policy", "",
		"when the agent takes another version: auto, window or pinned")
	c.Flags().StringVar(&f.window, "maintenance-window", "",
		"the `WINDOW` of the policy window: days, start, hours and time zone, as in saturday,sunday/02:30/4/Europe/Berlin")
	c.Flags().BoolVar(&f.noWindow, "no-maintenance-window", false, "remove the maintenance window")
	c.MarkFlagsMutuallyExclusive("maintenance-window", "no-maintenance-window")
	completeWith(c, "image-policy", image.Policy("").Values()...)
}

// fill adds what the flags say to a change, and reports whether they say anything.
func (f *imageFlags) fill(body *client.UpdateAgentRequest) (changes bool, err error) {
	if f.image != "" {
		body.Image = &f.image
	}
	if policy := client.ImagePolicy(f.policy); policy != "" {
		body.ImagePolicy = &policy
	}
	var window *client.ImageMaintenanceWindow
	if f.window != "" {
		if window, err = parseWindow(f.window); err != nil {
			return false, err
		}
	}
	if window != nil || f.noWindow {
		body.MaintenanceWindow = &window
	}
	return body.Image != nil || body.ImagePolicy != nil || body.MaintenanceWindow != nil, nil
}

// parseWindow reads a maintenance window such as saturday,sunday/02:30/4/Europe/Berlin. The API checks it.
func parseWindow(text string) (*client.ImageMaintenanceWindow, error) {
	parts := strings.SplitN(text, "/", 4)
	if len(parts) < 4 {
		return nil, usagef("--maintenance-window %s: want days/start/hours/time zone, "+
			"as in saturday,sunday/02:30/4/Europe/Berlin", text)
	}
	hours, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return nil, usagef("--maintenance-window %s: %q is no number of hours", text, parts[2])
	}
	w := &client.ImageMaintenanceWindow{Start: parts[1], Hours: hours, Timezone: parts[3]}
	for day := range strings.SplitSeq(parts[0], ",") {
		if !slices.Contains(image.Day("").Values(), day) {
			return nil, usagef("--maintenance-window %s: %q is no day, as monday is one", text, day)
		}
		w.Days = append(w.Days, client.ImageDay(day))
	}
	return w, nil
}
