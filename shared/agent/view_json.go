package agent

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// AppendJSON implements function.JSONAppender. It appends what encoding/json writes for the view. That would encode the
// config, and each time in it, and then check and copy the result.
func (v View) AppendJSON(b []byte) ([]byte, error) {
	o := object{b: b}
	o.open('{')
	for _, m := range [...]struct{ key, text string }{
		{"id", v.ID},
		{"name", v.Name},
		{"status", string(v.Status)},
		{"namespace", v.Namespace},
		{"resource_plan", string(v.ResourcePlan)},
	} {
		o.key(m.key)
		o.text(m.text)
	}
	o.key("config")
	v.Config.write(&o)
	v.writeOrigin(&o)
	o.key("image")
	v.Image.write(&o)
	o.key("env_vars")
	v.writeEnvVars(&o)
	o.key("files")
	v.writeFiles(&o)
	o.key("public_paths")
	o.texts(v.PublicPaths)
	o.key("egress")
	o.value(v.Egress)
	o.key("schedules")
	v.writeSchedules(&o)
	o.key("wake_at")
	o.optionalTime(v.WakeAt)
	o.key("sleep")
	o.value(v.Sleep)
	o.key("clone_of")
	v.CloneOf.write(&o)
	o.key("unset_secrets")
	o.texts(v.UnsetSecrets)
	for _, m := range [...]struct {
		key  string
		text *string
	}{
		{"error_message", v.ErrorMessage},
		{"dashboard_url", v.DashboardURL},
		{"api_url", v.APIURL},
		{"dashboard_handoff_url", v.DashboardHandoff},
		{"dashboard_username", v.DashboardUsername},
		{"hostname", v.Hostname},
	} {
		o.key(m.key)
		o.optional(m.text)
	}
	o.key("dashboard_warming")
	o.flag(v.DashboardWarming)
	o.key("credential_rotation_pending")
	o.flag(v.RotationPending)
	o.close('}')
	return o.b, o.err
}

func (v View) writeOrigin(o *object) {
	o.key("created_at")
	o.time(v.CreatedAt)
	o.key("updated_at")
	o.time(v.UpdatedAt)
	o.key("cloud")
	o.text(v.Cloud)
	o.key("region")
	o.text(v.Region)
}

func (v View) writeEnvVars(o *object) {
	if v.EnvVars == nil {
		o.null()
		return
	}
	o.open('{')
	for _, key := range slices.Sorted(maps.Keys(v.EnvVars)) {
		o.key(key)
		o.text(string(v.EnvVars[key]))
	}
	o.close('}')
}

func (v View) writeFiles(o *object) {
	if v.Files == nil {
		o.null()
		return
	}
	o.open('[')
	for _, f := range v.Files {
		o.next()
		o.value(f)
	}
	o.close(']')
}

func (v View) writeSchedules(o *object) {
	if v.Schedules == nil {
		o.null()
		return
	}
	o.open('[')
	for _, s := range v.Schedules {
		o.next()
		o.value(s)
	}
	o.close(']')
}

// MarshalJSON writes the client's keys and those of the control plane into one object. The control plane's keys win.
func (c ConfigView) MarshalJSON() ([]byte, error) {
	var o object
	c.write(&o)
	return o.b, o.err
}

// member is a key of an object and what writes its value.
type member struct {
	key   string
	write func(*object)
}

// write writes the view as a value. Like all that MarshalJSON returns, it has no character of HTML in its texts.
func (c ConfigView) write(o *object) {
	members := []member{
		{"provisioning_stages", c.writeStages},
		{"status_reason", func(o *object) { o.optional((*string)(c.StatusReason)) }},
		{"allowed_actions", c.writeActions},
		{"sandbox_enabled", func(o *object) { o.flag(c.SandboxEnabled) }},
		{"plan_limits", c.PlanLimits.write},
		{"error", func(o *object) { o.value(c.Error) }},
	}
	if len(c.Own) > 0 {
		reserved := members
		for key, value := range c.Own {
			if !slices.ContainsFunc(reserved, func(m member) bool { return m.key == key }) {
				members = append(members, member{key, func(o *object) { o.value(value) }})
			}
		}
		slices.SortFunc(members, func(x, y member) int { return strings.Compare(x.key, y.key) })
	}
	defer func(before bool) { o.escapesHTML = before }(o.escapesHTML)
	o.escapesHTML = true
	o.open('{')
	for _, m := range members {
		o.key(m.key)
		m.write(o)
	}
	o.close('}')
}

func (c ConfigView) writeStages(o *object) {
	if c.ProvisioningStages == nil {
		o.null()
		return
	}
	o.open('[')
	for _, s := range c.ProvisioningStages {
		o.next()
		s.write(o)
	}
	o.close(']')
}

func (c ConfigView) writeActions(o *object) {
	if c.AllowedActions == nil {
		o.null()
		return
	}
	o.open('[')
	for _, action := range c.AllowedActions {
		o.next()
		o.text(string(action))
	}
	o.close(']')
}

func (l PlanLimits) write(o *object) {
	o.open('{')
	o.key("cpu_cores")
	o.value(l.CPUCores)
	o.key("memory_bytes")
	o.b = strconv.AppendInt(o.b, l.MemoryBytes, 10)
	o.key("storage_bytes")
	o.b = strconv.AppendInt(o.b, l.StorageBytes, 10)
	o.close('}')
}

func (s StageView) write(o *object) {
	o.open('{')
	o.key("name")
	o.text(string(s.Name))
	o.key("status")
	o.text(string(s.Status))
	o.key("attempt")
	o.b = strconv.AppendInt(o.b, int64(s.Attempt), 10)
	o.key("started_at")
	o.optionalTime(s.StartedAt)
	o.key("finished_at")
	o.optionalTime(s.FinishedAt)
	o.key("error_code")
	o.optional(s.ErrorCode)
	o.key("message")
	o.optional(s.Message)
	o.close('}')
}

// object writes JSON as encoding/json does.
type object struct {
	b   []byte
	err error
	// escapesHTML writes the characters <, > and & of texts as escapes.
	escapesHTML bool
}

func (o *object) open(bracket byte) { o.b = append(o.b, bracket) }

func (o *object) close(bracket byte) { o.b = append(o.b, bracket) }

// next separates a value from the one before it.
func (o *object) next() {
	if last := o.b[len(o.b)-1]; last != '{' && last != '[' {
		o.b = append(o.b, ',')
	}
}

func (o *object) key(name string) {
	o.next()
	o.text(name)
	o.b = append(o.b, ':')
}

func (o *object) null() { o.b = append(o.b, "null"...) }

func (o *object) flag(f bool) { o.b = strconv.AppendBool(o.b, f) }

func (o *object) text(s string) {
	if strings.ContainsFunc(s, needsEscape) {
		o.value(s)
		return
	}
	o.b = append(append(append(o.b, '"'), s...), '"')
}

// needsEscape reports whether a character of a text may need an escape.
func needsEscape(r rune) bool {
	return r < ' ' || r >= utf8.RuneSelf || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
}

func (o *object) texts(list []string) {
	if list == nil {
		o.null()
		return
	}
	o.open('[')
	for _, s := range list {
		o.next()
		o.text(s)
	}
	o.close(']')
}

func (o *object) optional(s *string) {
	if s == nil {
		o.null()
		return
	}
	o.text(*s)
}

func (o *object) optionalTime(t *time.Time) {
	if t == nil {
		o.null()
		return
	}
	o.time(*t)
}

func (o *object) time(t time.Time) {
	o.b = append(t.AppendFormat(append(o.b, '"'), time.RFC3339Nano), '"')
}

// value writes any value.
func (o *object) value(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(o.escapesHTML)
	if err := e.Encode(v); err != nil {
		o.err = err
		return
	}
	o.b = append(o.b, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
