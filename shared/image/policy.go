package image

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Policy says when an agent takes another version of its image.
type Policy string

// The policies.
const (
	// Auto: releases move the agent, and each start takes the image's default version.
	Auto Policy = "auto"
	// Window: as Auto, but only within the agent's maintenance window.
	Window Policy = "window"
	// Pinned: only a client moves the agent.
	Pinned Policy = "pinned"
)

// Values lists the policies.
func (Policy) Values() []string { return []string{string(Auto), string(Window), string(Pinned)} }

// Day is a day of the week.
type Day string

// days are the days in the order of time.Weekday.
var days = [...]Day{ //nolint:gochecknoglobals // a constant
	"sunday",
	"monday",
	"tuesday",
	"wednesday",
	"thursday",
	"friday",
	"saturday",
}

// Values lists the days, Monday first.
func (Day) Values() []string {
	var values []string
	for i := range days {
		values = append(values, string(days[(i+1)%len(days)]))
	}
	return values
}

// Days are some days of a week.
type Days []Day

// ItemBounds implements function.List.
func (Days) ItemBounds() (least, most int) { return 1, len(days) }

// Hours is how long a window is open.
type Hours int

// maxHours is the largest number of Hours.
const maxHours = 24

// JSONSchema implements function.Schemer.
func (Hours) JSONSchema() *jsonschema.Schema {
	least, most := 1.0, float64(maxHours)
	return &jsonschema.Schema{Type: "integer", Minimum: &least, Maximum: &most}
}

// MaintenanceWindow is when an agent with the policy Window takes another version.
type MaintenanceWindow struct {
	Days Days `json:"days" jsonschema:"The days on which the window begins."`
	// Start is a time of day, such as "02:30".
	Start string `json:"start" jsonschema:"When it begins, such as 02:30."`
	Hours Hours  `json:"hours" jsonschema:"How long it lasts, 1 to 24 hours."`
	// Timezone is a name of the IANA time zone database.
	Timezone string `json:"timezone" jsonschema:"The time zone of start and days, such as Europe/Berlin."`
}

// String shows the window on one line, for people. It is empty for nil.
func (w *MaintenanceWindow) String() string {
	if w == nil {
		return ""
	}
	names := make([]string, len(w.Days))
	for i, d := range w.Days {
		names[i] = string(d)
	}
	return fmt.Sprintf("%s %s for %d h (%s)", strings.Join(names, ", "), w.Start, w.Hours, w.Timezone)
}

// Check returns what is wrong with the window, by field; nil if nothing is.
func (w MaintenanceWindow) Check() map[string]string {
	found := map[string]string{}
	if len(w.Days) == 0 || len(w.Days) > len(days) ||
		slices.ContainsFunc(w.Days, func(d Day) bool { return !slices.Contains(days[:], d) }) {
		found["days"] = "want some of " + strings.Join(Day("").Values(), ", ")
	}
	if _, err := time.Parse("15:04", w.Start); err != nil || len(w.Start) != len("15:04") {
		found["start"] = "want a time of day, such as 02:30"
	}
	if w.Hours < 1 || w.Hours > maxHours {
		found["hours"] = fmt.Sprintf("want 1 to %d", maxHours)
	}
	if _, err := Zone(w.Timezone); err != nil {
		found["timezone"] = "want a name of the IANA time zone database, such as Europe/Berlin"
	}
	return found
}

// Zone returns the time zone with a name of the IANA database. A zone is a file, to which endless texts lead, such as
// Europe/././Berlin. Only one of them is its name, so that no client can fill memory with the others.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err == nil && (name == "" || name == "Local" || name != path.Clean(name)) {
		err = errors.New("no name")
	}
	return zone, err
}

// Open reports whether the window is open. One that is not valid never is.
func (w MaintenanceWindow) Open(now time.Time) bool {
	at, err := time.Parse("15:04", w.Start)
	zone, unknown := time.LoadLocation(w.Timezone)
	if err != nil || unknown != nil {
		return false
	}
	local := now.In(zone)
	for _, ago := range []int{0, 1} { // a window that began yesterday may still be open
		begins := time.Date(local.Year(), local.Month(), local.Day()-ago, at.Hour(), at.Minute(), 0, 0, zone)
		ends := begins.Add(time.Duration(w.Hours) * time.Hour)
		if slices.Contains(w.Days, days[begins.Weekday()]) && !now.Before(begins) && now.Before(ends) {
			return true
		}
	}
	return false
}
