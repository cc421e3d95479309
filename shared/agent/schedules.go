package agent

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
)

// Limits of an agent's schedules. Every list of agents reads the bodies, which are in the records.
const (
	MaxSchedules           = 20
	MaxScheduleBodyBytes   = 16 << 10
	MaxScheduleBodiesBytes = 64 << 10
	maxScheduleIDBytes     = 40
)

// Schedule calls the agent at certain times.
type Schedule struct {
	ScheduleTerms
	// After is until when the due times are handled.
	After time.Time
	// Call is what the agent's front was told to do last and has not reported on; zero if there is none.
	Call Call
	// Last is the latest call that has ended; zero if there is none.
	Last CallResult
	// Skipped counts the due times at which the agent was not called.
	Skipped int64
}

// ScheduleTerms are what a client sets of a schedule.
type ScheduleTerms struct {
	// ID is the client's own name for the schedule.
	ID       string
	Cron     string
	Timezone string
	// Path of the agent's container receives Body.
	Path   string
	Body   string
	Missed MissedPolicy
	// Disabled keeps the schedule without calls.
	Disabled bool
}

// MissedPolicy says what becomes of due times that passed while the agent could not be called.
type MissedPolicy string

// The policies.
const (
	SkipMissed MissedPolicy = "skip"
	// RunMissedOnce: one call for all of them.
	RunMissedOnce MissedPolicy = "run_once"
)

// Values lists the policies.
func (MissedPolicy) Values() []string { return []string{string(SkipMissed), string(RunMissedOnce)} }

// ScheduleID is a client's name for a schedule.
type ScheduleID string

var scheduleID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`) })

// JSONSchema implements function.Schemer.
func (ScheduleID) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", Pattern: scheduleID().String(), MaxLength: ptr(maxScheduleIDBytes),
		Description: "Your name for the schedule, unique in the agent: lower-case letters, digits and hyphens.",
	}
}

// ScheduleSpec is a client's request for a schedule.
type ScheduleSpec struct {
	ID       ScheduleID   `json:"id"`
	Cron     string       `json:"cron" jsonschema:"When the agent is called: minute, hour, day of month, month and day of week, such as 30 9 * * MON-FRI. Two calls are at least 5 minutes apart. A time that the clocks skip is due as much later as they move, and one that they show twice is due once, the first time; with * as the hour, the schedule is due in each hour that passes."`
	Timezone string       `json:"timezone,omitempty" jsonschema:"The time zone of cron, as the IANA database names it, such as Europe/Berlin; UTC by default."`
	Path     string       `json:"path" jsonschema:"The path of the agent that gets a POST, such as /v1/chat/completions; at most 256 characters. It cannot be below /auth, /handoff, /health and /logout."`
	Body     string       `json:"body,omitempty" jsonschema:"The body of the request, at most 16 KiB, and 64 KiB for all schedules together. Its Content-Type is application/json if it is JSON, and otherwise text/plain. Only admins see it. Text that looks like a secret is refused."`
	Missed   MissedPolicy `json:"missed,omitempty" jsonschema:"What becomes of due times that passed more than 30 minutes ago while the agent could not be called, because it was stopped or paused, for example, or because the call before took that long: skip (by default) counts them, and run_once calls the agent once for all of them."`
	Enabled  *bool        `json:"enabled,omitempty" jsonschema:"False keeps the schedule without calls; true by default."`
}

// ScheduleSpecs are all schedules that an agent shall have.
type ScheduleSpecs []ScheduleSpec

// ItemBounds implements function.List.
func (ScheduleSpecs) ItemBounds() (least, most int) { return 0, MaxSchedules }

// terms returns what the record has of the request.
func (s ScheduleSpec) terms() ScheduleTerms {
	t := ScheduleTerms{
		ID: string(s.ID), Cron: s.Cron, Timezone: s.Timezone, Path: s.Path, Body: s.Body, Missed: s.Missed,
		Disabled: s.Enabled != nil && !*s.Enabled,
	}
	if t.Timezone == "" {
		t.Timezone = time.UTC.String()
	}
	if t.Missed == "" {
		t.Missed = SkipMissed
	}
	return t
}

// spec returns the request whose terms these are.
func (t ScheduleTerms) spec() ScheduleSpec {
	return ScheduleSpec{
		ID: ScheduleID(t.ID), Cron: t.Cron, Timezone: t.Timezone, Path: t.Path, Body: t.Body, Missed: t.Missed,
		Enabled: new(!t.Disabled),
	}
}

// setSchedules replaces the agent's schedules, and reports whether that changed them. One that stays goes on where it
// was. The others begin a little later than now: a worker whose clock is ahead may have called the agent for one that
// is removed and added again.
func (a *Agent) setSchedules(specs []ScheduleSpec, now time.Time) (changed bool) {
	schedules := make([]Schedule, len(specs))
	for i, spec := range specs {
		schedules[i] = Schedule{ScheduleTerms: spec.terms(), After: now.Add(maxSkew)}
		former, ok := a.schedule(string(spec.ID))
		if !ok {
			continue
		}
		s := &schedules[i]
		s.Call, s.Last, s.Skipped = former.Call, former.Last, former.Skipped
		if former.sameTimes(s.ScheduleTerms) {
			s.After = former.After
		}
	}
	slices.SortFunc(schedules, func(x, y Schedule) int { return strings.Compare(x.ID, y.ID) })
	changed = !slices.Equal(termsOf(schedules), termsOf(a.Schedules))
	if changed {
		a.Schedules = schedules
	}
	return changed
}

func (a Agent) schedule(id string) (s Schedule, ok bool) {
	i := slices.IndexFunc(a.Schedules, func(s Schedule) bool { return s.ID == id })
	if i < 0 {
		return Schedule{}, false
	}
	return a.Schedules[i], true
}

// sameTimes reports whether two schedules are due at the same times.
func (t ScheduleTerms) sameTimes(o ScheduleTerms) bool {
	return t.Cron == o.Cron && t.Timezone == o.Timezone && t.Disabled == o.Disabled
}

// termsOf returns what clients set of schedules.
func termsOf(schedules []Schedule) []ScheduleTerms {
	terms := make([]ScheduleTerms, len(schedules))
	for i, s := range schedules {
		terms[i] = s.ScheduleTerms
	}
	return terms
}

// next returns the first due time after another; zero if there is none.
func (s *Schedule) next(after time.Time) time.Time { return s.recurrence().next(after) }

// recurrence is when the schedule is due: never if it is disabled, or if only a later release accepts it.
func (s *Schedule) recurrence() recurrence {
	if s.Disabled {
		return recurrence{}
	}
	r, broken := newRecurrence(s.Cron, s.Timezone)
	if len(broken) > 0 {
		return recurrence{}
	}
	return r
}

// scheduleViolations checks the schedules in a body. The schema checks their types, and that there are not too many.
func scheduleViolations(body map[string]any) (found []fault.Violation) {
	list, _ := body["schedules"].([]any)
	all := []any{"body", "schedules"}
	total, ids := 0, map[string]bool{}
	for i, item := range list[:min(len(list), MaxSchedules)] {
		spec, _ := item.(map[string]any)
		text := func(field string) (value string, given bool) {
			value, given = spec[field].(string)
			return value, given
		}
		broken := map[string]string{}
		if expression, ok := text("cron"); ok {
			zone, given := text("timezone")
			if _, invalid := spec["timezone"]; !given && !invalid {
				zone = time.UTC.String()
			}
			_, broken = newRecurrence(expression, zone)
		}
		if p, ok := text("path"); ok {
			if err := dataplane.CheckCallPath(p); err != nil {
				broken["path"] = err.Error()
			}
		}
		b, _ := text("body")
		total += len(b)
		if why := scheduleBodyViolation(b); why != "" {
			broken["body"] = why
		}
		id, _ := text("id")
		if ids[id] {
			broken["id"] = "another schedule has this id"
		}
		ids[id] = true
		for _, field := range sortedKeys(broken) {
			found = append(found, fault.ValueError(append(slices.Clone(all), i, field), broken[field]))
		}
	}
	if total > MaxScheduleBodiesBytes {
		found = append(found, fault.ValueError(all,
			fmt.Sprintf("the bodies of all schedules must not exceed %d bytes in total", MaxScheduleBodiesBytes)))
	}
	return found
}

func scheduleBodyViolation(body string) string {
	switch {
	case len(body) > MaxScheduleBodyBytes:
		return fmt.Sprintf("a body must not exceed %d bytes", MaxScheduleBodyBytes)
	case strings.ContainsRune(body, 0):
		return "a body must not contain NUL characters"
	case LooksSecretValue(body):
		return "the body looks like a secret: set it as a secret of the agent, whose program has it as a variable"
	default:
		return ""
	}
}
