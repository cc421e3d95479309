package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// Patch is a client's change of an agent. A nil field leaves that part unchanged.
type Patch struct {
	Name *string
	// Env is merged into the environment: a nil value removes its key, and other keys stay.
	Env map[string]*string
	// Config is merged into the client's own config by the rules of RFC 7396.
	Config map[string]any
	// Files replaces the list of files. A file without content and secret keeps those that it has.
	Files *[]FileSpec
	// PublicPaths replaces the list. It is sorted.
	PublicPaths *[]string
	// Egress changes the present rules.
	Egress EgressChange
	// Schedules replaces the list.
	Schedules *[]ScheduleSpec
	// Sleep changes the present policy.
	Sleep func(SleepPolicy) SleepPolicy
	// Plan decides the agent's size.
	Plan *plan.ID
	// Image selects another version of the agent's image.
	Image       *string
	ImagePolicy image.Policy
	// MaintenanceWindow replaces the window, or removes it if it points to nil.
	MaintenanceWindow **image.MaintenanceWindow
}

// UpdateViolations checks what the schema of a patch can't express and does not depend on the agent.
func UpdateViolations(body map[string]any) []fault.Violation {
	found := append(bodyViolations(body, func(key string, value any) string {
		text, isText := value.(string)
		switch {
		case !isText, text == EnvIsSecret, text == EnvIsConfigured:
			return "" // mergeEnv decides: it knows the present variable
		case LooksSecret(key):
			return secretElsewhere
		case LooksSecretValue(text):
			return secretValueElsewhere
		default:
			return ""
		}
	}), fileViolations(body, false, func(string) string { return "" })...)
	env, _ := body["env_vars"].(map[string]any)
	found = slices.DeleteFunc(found, func(v fault.Violation) bool { return ofFormerRelease(v, env) })
	return append(found, windowViolations(body)...)
}

// ofFormerRelease reports whether a violation is about a patch that removes or leaves a variable whose name a former
// release did not reserve. mergeEnv refuses to set one.
func ofFormerRelease(v fault.Violation, env map[string]any) bool {
	if len(v.Loc) < envKeyLoc {
		return false
	}
	key, _ := v.Loc[envKeyLoc-1].(string)
	value, given := env[key]
	return given && (value == nil || value == EnvIsConfigured || value == EnvIsSecret) &&
		slices.Contains(dataplane.OwnVariables(), key)
}

const (
	secretElsewhere      = "the key names a secret; set or delete it with PUT /agents/{agent_id}/secrets"
	secretValueElsewhere = "the value looks like a secret; set it with PUT /agents/{agent_id}/secrets"
)

func secretViolation(key string) fault.Violation {
	return fault.ValueError([]any{"body", "env_vars", key}, secretElsewhere)
}

// Apply merges a patch. Every change replaces the pod, but that of the name, of the image's policy, of its window, of
// the schedules and of the names that a restricted agent may reach: the pod is started with the rest. The store carries
// out that of the image: see ImageWish. Errors: Invalid, Conflict while the agent is being deleted, if its volume would
// shrink, for another policy of a custom image, or if brokered secrets would have no gate.
func (a *Agent) Apply(p Patch, now time.Time) error {
	if a.Status == Deleting {
		return a.conflict("update")
	}
	env, changed, err := a.mergeEnv(p.Env)
	if err != nil {
		return err
	}
	config, err := a.mergeConfig(p.Config)
	if err != nil {
		return err
	}
	files, refiled, err := a.mergeFiles(p.Files)
	if err != nil {
		return err
	}
	scheduled, err := a.scheduleImage(p)
	if err != nil {
		return err
	}
	resized := p.Plan != nil && *p.Plan != a.Plan
	if resized {
		if err := a.resize(*p.Plan); err != nil {
			return err
		}
	}
	renamed := p.Name != nil && *p.Name != a.Name
	a.Name = *cmp.Or(p.Name, &a.Name)
	configured := hasConfig(config) != hasConfig(a.Config) || hasConfig(config) && !bytes.Equal(config, a.Config)
	a.Config = config
	if changed {
		a.Env = env
	}
	if refiled {
		a.Files = files
	}
	called := p.Schedules != nil && a.setSchedules(*p.Schedules, now)
	if renamed || scheduled || called {
		a.UpdatedAt = now
	}
	opened := p.PublicPaths != nil && a.setPublicPaths(*p.PublicPaths)
	former := a.Sleep
	a.setSleep(p.Sleep)
	rerouted, err := a.setEgress(p.Egress, now)
	if err != nil {
		return err
	}
	if changed || refiled || opened || configured || resized || rerouted || !a.Sleep.Equal(former) {
		a.replacePod(now)
	}
	if a.Asleep() && a.Sleep.AfterSeconds == 0 {
		a.startProvisioning(now)
		a.WokenBy = WokenByResume
	}
	if p.Image != nil {
		a.ImageWish = &ImageWish{Selection: *p.Image, At: now}
	}
	return nil
}

// Migrate turns the sandboxed runtime class on or off. The volume stays. Errors: Conflict while the agent is being
// deleted.
func (a *Agent) Migrate(enabled bool, now time.Time) error {
	if a.Status == Deleting {
		return a.conflict("migrate-sandbox")
	}
	if !enabled && a.Image.ID == image.CustomID {
		return fault.New(fault.Conflict, "sandbox_required", "A custom image runs in the sandbox only.").
			WithMeta(a.ConflictMeta())
	}
	if enabled && a.Image.Kernel == image.KernelLinux {
		return a.sandboxImpossible()
	}
	if a.Sandbox != enabled {
		a.Sandbox, a.RevertReason = enabled, nil
		a.replacePod(now)
	}
	return nil
}

// replacePod makes a worker replace the pod with one of the present desired state. An agent without a pod uses that
// state from its next start.
func (a *Agent) replacePod(now time.Time) {
	switch a.Status { //nolint:exhaustive // the other statuses have no pod
	case Running, Error:
		a.Warming = true
	case Provisioning, Pending:
		a.forgetStages(StageIdentity, StageSecrets, StageRuntime, StageReady)
	}
	a.NameAtStart = a.Name
	a.dropImport()
	a.bumpGeneration(now)
}

func (a Agent) mergeEnv(patch map[string]*string) (merged []EnvVar, changed bool, err error) {
	vars := map[string]EnvVar{}
	for _, e := range a.Env {
		vars[e.Key] = e
	}
	for _, key := range sortedKeys(patch) {
		value, old := patch[key], vars[key]
		_, exists := vars[key]
		switch {
		case value != nil && (*value == EnvIsConfigured && exists && !old.Secret() ||
			*value == EnvIsSecret && a.HasSecret(a.SecretKey(key))):
			continue // the client sends back the placeholder that it read
		case old.Secret(), a.isSetting(key), a.hasBrokered(key), LooksSecret(key) && (value != nil || !exists):
			// A plain variable that is named like a secret can be removed: an earlier release accepted it.
			return nil, false, fault.Validation(secretViolation(key))
		case value == nil && exists:
			delete(vars, key)
			changed = true
		case value != nil && old.Value != *value, value != nil && !exists:
			vars[key] = EnvVar{Key: key, Value: *value}
			changed = true
		}
	}
	plain := map[string]any{}
	for key, e := range vars {
		merged = append(merged, e)
		plain[key] = e.Value
	}
	SortEnv(merged)
	// A key that a former release accepted stays until its client removes it.
	found := slices.DeleteFunc(EnvViolations(plain), func(v fault.Violation) bool {
		if len(v.Loc) < envKeyLoc {
			return false
		}
		key := v.Loc[envKeyLoc-1]
		return slices.ContainsFunc(a.Env, func(e EnvVar) bool { return e.Key == key && e == vars[e.Key] })
	})
	if changed && len(found) > 0 {
		return nil, false, fault.Validation(found...)
	}
	return merged, changed, nil
}

// envKeyLoc is the length of the place of a variable: body, env_vars and its key.
const envKeyLoc = 3

func (a Agent) mergeConfig(patch map[string]any) (json.RawMessage, error) {
	if patch == nil {
		return a.Config, nil
	}
	own := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(a.Config))
	d.UseNumber()
	if err := d.Decode(&own); err != nil && len(a.Config) > 0 {
		return nil, fmt.Errorf("the stored config of agent %s is not a JSON object: %w", a.ID, err)
	}
	former, err := ClientConfig(own)
	if err != nil {
		return nil, err
	}
	merged, _ := mergePatch(own, patch).(map[string]any)
	if found := ConfigViolations(merged); len(found) > 0 {
		return nil, fault.Validation(found...)
	}
	config, err := ClientConfig(merged)
	if bytes.Equal(config, former) {
		return a.Config, err // a former release wrote the same in another way
	}
	return config, err
}

// mergePatch implements RFC 7396, section 2.
func mergePatch(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for key, value := range changes {
		if value == nil {
			delete(object, key)
			continue
		}
		object[key] = mergePatch(object[key], value)
	}
	return object
}
