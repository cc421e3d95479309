package agentctl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"agents.example/controlplane/functions/agentctl/manifest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/client"
)

// fieldChange is a difference between an agent and its file. Values of secrets are never in it.
type fieldChange struct {
	Field string `json:"field"`
	Old   any    `json:"old"`
	New   any    `json:"new"`
}

// mark is the part of the config by which the agent is found again.
func mark(manifestName, key string) map[string]any {
	return map[string]any{"manifest": manifestName, "agent": key}
}

// creationOf returns the request that creates an agent. Secrets, and the files that have their values, follow with
// other requests: the idempotency key of this one is not random, so it would not protect a value that is easy to guess.
func creationOf(manifestName string, spec *manifest.Agent) client.CreateAgentRequest {
	body := client.CreateAgentRequest{
		Name: nameOf(spec), ResourcePlan: client.PlanIDHobby, Region: spec.Region, Image: spec.Image, EnvVars: spec.Env,
		Config: map[string]any{},
	}
	maps.Copy(body.Config, spec.Config)
	body.Config[manifest.ConfigKey] = mark(manifestName, spec.Key)
	if spec.Plan != nil {
		body.ResourcePlan = *spec.Plan
	}
	for _, f := range valueOr(spec.Files) {
		if f.Content != nil {
			body.Files = append(body.Files, fileSpec(f))
		}
	}
	body.PublicPaths, body.Schedules = valueOr(spec.PublicPaths), valueOr(spec.Schedules)
	body.Egress, body.Sleep = spec.Egress, sleepOf(spec)
	return body
}

// creation returns the request that creates an agent, with the data that it begins with. The address of an archive that
// is signed cannot be guessed, so it may be sent with the derived idempotency key.
func (r *application) creation(ctx context.Context, spec *manifest.Agent) (client.CreateAgentRequest, error) {
	body := creationOf(r.set.Name, spec)
	if spec.ImportURL != nil {
		address, err := r.sourceValue(*spec.ImportURL, "the address of the archive")
		if err != nil {
			return body, err
		}
		body.ImportURL = &address
	}
	if spec.FromSnapshot == nil {
		return body, nil
	}
	body.FromSnapshot = spec.FromSnapshot
	owner, _, ok := agent.SnapshotOwner(*spec.FromSnapshot)
	if !ok || spec.Config != nil {
		return body, nil
	}
	// A config in the request replaces that of the snapshot's agent, and the mark needs one.
	source, err := r.api.GetAgent(ctx, owner, client.GetAgentParams{})
	if client.IsNotFound(err) {
		return body, nil // the API says what is wrong with the snapshot
	}
	if err != nil {
		return body, err
	}
	body.Config = maps.Clone(source.Config.AdditionalProperties)
	body.Config[manifest.ConfigKey] = mark(r.set.Name, spec.Key)
	return body, nil
}

// valueOr returns what a pointer points to, or the zero value.
func valueOr[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

func fileSpec(f manifest.File) client.AgentFileSpec {
	return client.AgentFileSpec{Path: f.Path, Content: f.Content, Secret: f.Secret, Mode: f.Mode}
}

func sleepOf(spec *manifest.Agent) *client.AgentSleepSpec {
	if spec.Sleep == nil {
		return nil
	}
	s := &client.AgentSleepSpec{WakeOn: spec.Sleep.WakeOn}
	if spec.Sleep.AfterSeconds != nil || spec.Sleep.Never {
		s.AfterSeconds = &spec.Sleep.AfterSeconds
	}
	return s
}

// changeOf returns the request that makes an agent what the file says.
func changeOf(manifestName string, spec *manifest.Agent, a *client.Agent) client.UpdateAgentRequest {
	name := nameOf(spec)
	body := client.UpdateAgentRequest{
		Name: &name, ResourcePlan: spec.Plan, ImagePolicy: spec.ImagePolicy, PublicPaths: spec.PublicPaths,
		Schedules: spec.Schedules, Egress: spec.Egress, Sleep: sleepOf(spec),
	}
	if spec.Image != nil && !runs(a, *spec.Image) {
		body.Image = spec.Image
	}
	if spec.MaintenanceWindow != nil || spec.NoWindow {
		body.MaintenanceWindow = &spec.MaintenanceWindow
	}
	if spec.Env != nil {
		body.EnvVars = map[string]*string{}
		for key, value := range spec.Env {
			body.EnvVars[key] = &value
		}
		for key, source := range a.EnvVars {
			if _, stays := spec.Env[key]; !stays && source == client.AgentEnvVarSourceConfigured {
				body.EnvVars[key] = nil
			}
		}
	}
	if spec.Files != nil {
		files := []client.AgentFileSpec{}
		for _, f := range *spec.Files {
			if !awaitsSecret(spec, f, a) {
				files = append(files, fileSpec(f))
			}
		}
		body.Files = &files
	}
	body.Config = map[string]any{manifest.ConfigKey: mark(manifestName, spec.Key)}
	if spec.Config != nil {
		own := maps.Clone(a.Config.AdditionalProperties)
		delete(own, manifest.ConfigKey)
		maps.Copy(body.Config, mergeInto(own, spec.Config))
	}
	return body
}

// awaitsSecret reports whether the API would refuse a file, because the agent does not have its secret yet. After the
// secrets, the agent is compared again.
func awaitsSecret(spec *manifest.Agent, f manifest.File, a *client.Agent) bool {
	if f.Secret == nil || a.EnvVars[*f.Secret] != "" {
		return false
	}
	_, follows := spec.Secrets[*f.Secret]
	return follows
}

// mergeInto returns the merge patch of RFC 7396 that turns one object into another.
func mergeInto(present, wanted map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range present {
		if _, stays := wanted[key]; !stays {
			patch[key] = nil
		}
	}
	for key, value := range wanted {
		inner, isObject := value.(map[string]any)
		former, wasObject := present[key].(map[string]any)
		if isObject && wasObject {
			value = mergeInto(former, inner)
		}
		patch[key] = value
	}
	return patch
}

// runs reports whether an agent has an image, or a version of it. Without a version, its policy decides which one.
func runs(a *client.Agent, selection string) bool {
	if a.Image == nil {
		return false
	}
	if a.Image.Digest != nil && strings.HasSuffix(selection, "@"+*a.Image.Digest) {
		return true
	}
	id, version, _ := strings.Cut(selection, "@")
	return id == a.Image.ID && (version == "" || version == a.Image.Version)
}

// shownFields returns what the API shows of the fields that the file has. The keys name them as the file does.
func shownFields(spec *manifest.Agent, a *client.Agent) map[string]any {
	fields := map[string]any{"name": a.Name}
	add := func(given bool, name string, value any) {
		if given {
			fields[name] = value
		}
	}
	add(spec.Plan != nil, "resource_plan", string(a.ResourcePlan))
	add(spec.Region != nil, "region", a.Region)
	if a.Image != nil {
		add(spec.Image != nil, "image", imageOf(*a))
		add(spec.ImagePolicy != nil, "image_policy", string(a.Image.Policy))
		add(spec.MaintenanceWindow != nil || spec.NoWindow, "maintenance_window", plain(a.Image.MaintenanceWindow))
	}
	for _, key := range slices.Sorted(maps.Keys(a.EnvVars)) {
		add(spec.Env != nil && a.EnvVars[key] == client.AgentEnvVarSourceConfigured, "env_vars."+key, "(a value)")
	}
	for key, value := range a.Config.AdditionalProperties {
		add(spec.Config != nil || key == manifest.ConfigKey, "config."+key, plain(value))
	}
	for _, f := range a.Files {
		add(spec.Files != nil, "files."+f.Path, describeFile(f))
	}
	add(spec.PublicPaths != nil, "public_paths", plain(a.PublicPaths))
	for _, s := range scheduleSpecs(a) {
		add(spec.Schedules != nil, "schedules."+s.ID, plain(s))
	}
	add(spec.Egress != nil, "egress", plain(a.Egress))
	add(spec.Sleep != nil, "sleep", cmp.Or(sleepText(a.Sleep), "never"))
	return fields
}

// describeFile says what the API shows of a file.
func describeFile(f client.AgentFile) string {
	if f.Secret != nil {
		return fmt.Sprintf("%s, the secret %s", f.Mode, *f.Secret)
	}
	return fmt.Sprintf("%s, %d bytes", f.Mode, valueOr(f.Size))
}

// plain turns a value into what its JSON has.
func plain(value any) any {
	into, err := decoded(value) // with all digits: two large numbers of a config may differ by little
	if err != nil {
		return fmt.Sprint(value)
	}
	return into
}

// shownChanges compares what the API shows of an agent before and after a change.
func shownChanges(spec *manifest.Agent, before, after *client.Agent) []fieldChange {
	old, now := shownFields(spec, before), shownFields(spec, after)
	if spec.Image != nil && !runs(before, *spec.Image) {
		now["image"] = *spec.Image
	}
	all := maps.Clone(old)
	maps.Copy(all, now)
	changes := []fieldChange{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(old[name], now[name]) {
			c := fieldChange{Field: name, Old: old[name], New: now[name]}
			if now[name] != nil {
				c.New = cmp.Or[any](newValue(spec, name), now[name])
			}
			changes = append(changes, c)
		}
	}
	return changes
}

// newFields lists what a new agent gets.
func newFields(spec *manifest.Agent, a *client.Agent) []fieldChange {
	every := *spec
	every.Plan, every.Region = &a.ResourcePlan, &a.Region
	changes := []fieldChange{}
	shown := shownFields(&every, a)
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		changes = append(changes, fieldChange{Field: name, New: cmp.Or[any](newValue(spec, name), shown[name])})
	}
	if spec.FromSnapshot != nil {
		changes = append(changes, fieldChange{Field: "from_snapshot", New: *spec.FromSnapshot})
	}
	if spec.ImportURL != nil {
		changes = append(changes, fieldChange{Field: "import_url", New: sourceText(*spec.ImportURL)})
	}
	if spec.ImagePolicy != nil {
		changes = append(changes, fieldChange{Field: "image_policy", New: string(*spec.ImagePolicy)})
	}
	return slices.DeleteFunc(changes, func(c fieldChange) bool {
		return c.New == nil || c.Field == "config."+manifest.ConfigKey
	})
}

// newValue is the value of a variable in the file, which has no secrets; nil for other fields.
func newValue(spec *manifest.Agent, field string) any {
	if key, ok := strings.CutPrefix(field, "env_vars."); ok {
		if value, given := spec.Env[key]; given {
			return value
		}
	}
	for _, f := range valueOr(spec.Files) {
		if field == "files."+f.Path && f.Content != nil {
			return fmt.Sprintf("%s, %d bytes", cmp.Or(valueOr(f.Mode), "0644"), len(*f.Content))
		}
	}
	return nil
}

// hiddenValues returns, for each value that may differ without being seen, the change of this value alone.
func hiddenValues(spec *manifest.Agent, a *client.Agent) map[string]client.UpdateAgentRequest {
	alone := map[string]client.UpdateAgentRequest{}
	for key, value := range spec.Env {
		if a.EnvVars[key] == client.AgentEnvVarSourceConfigured {
			alone["env_vars."+key] = client.UpdateAgentRequest{EnvVars: map[string]*string{key: &value}}
		}
	}
	for _, f := range valueOr(spec.Files) {
		same := slices.ContainsFunc(a.Files, func(p client.AgentFile) bool {
			return p.Path == f.Path && f.Content != nil && p.Size != nil && *p.Size == int64(len(*f.Content)) &&
				p.Mode == cmp.Or(valueOr(f.Mode), "0644")
		})
		if same {
			files := mergeFiles(a.Files, []client.AgentFileSpec{fileSpec(f)}, nil)
			alone["files."+f.Path] = client.UpdateAgentRequest{Files: &files}
		}
	}
	return alone
}

// secretValues reads the values of the secrets that an agent lacks or that are injected elsewhere, or of all of them if
// they are renewed.
func (r *application) secretValues(ctx context.Context, spec *manifest.Agent, a *client.Agent) ([]envEntry, error) {
	injected, err := injectedSecrets(ctx, r.api, a)
	if err != nil {
		return nil, err
	}
	var values []envEntry
	for _, key := range slices.Sorted(maps.Keys(spec.Secrets)) {
		inject := cmp.Or(spec.Secrets[key].Inject, injected[key])
		isThere := a.EnvVars[key] == client.AgentEnvVarSourceGSM && isSameInject(inject, injected[key])
		if isThere && !r.renewsSecrets {
			continue
		}
		value, err := r.sourceValue(spec.Secrets[key], "the value of the secret "+key)
		if why := checkValue(value); err == nil && why != "" {
			err = invalidf("the value of the secret %s: %s", key, why)
		}
		if why := checkKey(key); err == nil && why != "" {
			err = invalidf("%s", why)
		}
		if err != nil {
			return nil, err
		}
		values = append(values, envEntry{key: key, value: value, inject: inject})
	}
	return values, nil
}

// sourceValue reads a value that the file does not have.
func (r *application) sourceValue(s manifest.Source, what string) (string, error) {
	if s.File != nil {
		value, err := readFile(*s.File, maxValue)
		return withoutLineBreak(value), err
	}
	value, ok := r.app.Lookup(*s.Env)
	if !ok {
		return "", usagef("the environment has no variable %s, which has %s", *s.Env, what)
	}
	return value, nil
}

// sourceText says where a value is.
func sourceText(s manifest.Source) string {
	if s.File != nil {
		return "(from the file " + *s.File + ")"
	}
	return "(from the variable " + *s.Env + ")"
}

// secretChanges names the secrets that are set, and the files that get their values.
func secretChanges(spec *manifest.Agent, values []envEntry, a *client.Agent) []fieldChange {
	changes := []fieldChange{}
	for _, v := range values {
		s := spec.Secrets[v.key]
		c := fieldChange{Field: "secrets." + v.key, New: sourceText(s)}
		if v.inject != nil {
			c.New = fmt.Sprintf("%v, injected into %s", c.New, injectText(v.inject))
		}
		if a.EnvVars[v.key] != "" {
			c.Old = "(a value)"
		}
		changes = append(changes, c)
	}
	for _, f := range valueOr(spec.Files) {
		if awaitsSecret(spec, f, a) {
			changes = append(changes, fieldChange{Field: "files." + f.Path, New: "the secret " + *f.Secret})
		}
	}
	return changes
}
