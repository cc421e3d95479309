package agentctl

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/functions/agentctl/manifest"
	"agents.example/controlplane/shared/client"
)

func (t *tool) exportCommand() *cobra.Command {
	name := "production"
	c := t.severalAgents("export", "Write a file for apply from agents", "GetAgent",
		func(ctx context.Context, api *client.Client, agents []*client.Agent) error {
			if why := manifest.CheckName(name); why != "" {
				return usagef("--manifest: %s", why)
			}
			file := map[string]any{"manifest": name}
			described := map[string]any{}
			var custom []string
			for _, a := range agents {
				if a.Image != nil && a.Image.ID == customImage {
					custom = append(custom, a.Name)
				}
				key := keyOf(a)
				for n := 2; described[key] != nil; n++ {
					key = fmt.Sprintf("%s-%d", keyOf(a), n)
				}
				injected, err := injectedSecrets(ctx, api, a)
				if err != nil {
					return err
				}
				described[key] = exported(a, injected)
			}
			file["agents"] = described
			if t.output.kind == formatTable {
				t.output.kind = formatYAML
			}
			err := t.show(result{value: file, names: slices.Sorted(maps.Keys(described))})
			t.note("The API never shows the values of variables and the contents of files, so the file leaves them " +
				"as they are. To manage the agents with it: agentctl apply -f FILE --adopt")
			if len(custom) > 0 {
				t.note("Nor does it show the references of custom images: %s would run another image where the file "+
					"creates it. Add the image to the file.", strings.Join(custom, ", "))
			}
			return err
		})
	c.Long = "Write a file that agentctl apply reads, with what the API shows of agents. The API never shows the " +
		"values of variables and the contents of files: the file leaves them as they are, until you add them. It " +
		"names the secrets with the environment variables of the same names."
	c.Example = "  agentctl export my-agent other-agent --manifest production > agents.yaml\n" +
		"  agentctl apply -f agents.yaml --adopt --dry-run"
	c.Flags().StringVar(&name, "manifest", name, "the `NAME` of the set of agents")
	return c
}

// customImage is the id of an image that is not in the catalog.
const customImage = "custom"

// keyOf returns the key that an agent has in its manifest, or one that follows from its name.
func keyOf(a *client.Agent) string {
	if _, key := markOf(a); manifest.CheckName(key) == "" {
		return key
	}
	key := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(a.Name), "-"), "-")
	if key = strings.TrimRight(key[:min(len(key), 50)], "-"); key == "" {
		return "agent"
	}
	return key
}

// exported returns the fields of an agent that a manifest can have. injected says where its secrets are injected.
func exported(a *client.Agent, injected map[string]*client.SecretInject) map[string]any {
	fields := map[string]any{
		"name": a.Name, "resource_plan": a.ResourcePlan, "region": a.Region, "public_paths": a.PublicPaths,
		"schedules": scheduleSpecs(a), "egress": a.Egress,
		"sleep": map[string]any{"after_seconds": a.Sleep.AfterSeconds, "wake_on": a.Sleep.WakeOn},
	}
	if i := a.Image; i != nil && i.ID != customImage {
		fields["image"], fields["image_policy"] = i.ID, i.Policy
		if i.Policy == client.ImagePolicyPinned {
			fields["image"] = i.ID + "@" + i.Version
		}
		if i.MaintenanceWindow != nil {
			fields["maintenance_window"] = i.MaintenanceWindow
		}
	}
	config := maps.Clone(a.Config.AdditionalProperties)
	if delete(config, manifest.ConfigKey); len(config) > 0 {
		fields["config"] = config
	}
	secrets := map[string]any{}
	for key, source := range a.EnvVars {
		if source == client.AgentEnvVarSourceGSM {
			source := map[string]any{"env": key}
			if i := injected[key]; i != nil {
				source["inject"] = i
			}
			secrets[key] = source
		}
	}
	if len(secrets) > 0 {
		fields["secrets"] = secrets
	}
	files := []any{}
	for _, f := range a.Files {
		file := map[string]any{"path": f.Path, "mode": f.Mode}
		if f.Secret != nil {
			file["secret"] = *f.Secret
		}
		files = append(files, file)
	}
	if len(files) > 0 {
		fields["files"] = files
	}
	return fields
}
