package agent

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"agents.example/controlplane/shared/image"
)

// MinCallGap is the shortest time between two due times of a schedule.
const MinCallGap = 5 * time.Minute

// maxCronBytes bounds an expression.
const maxCronBytes = 128

// recurrence is when a schedule is due, in its time zone. The zero recurrence is never due.
type recurrence struct {
	spec *cron.SpecSchedule
	zone *time.Location
	// hourly is true if the expression names no hours.
	hourly bool
}

// newRecurrence parses an expression of five fields. Errors: what is wrong with it, by the field of the schedule.
func newRecurrence(expression, timezone string) (r recurrence, broken map[string]string) {
	broken = map[string]string{}
	zone, err := zoneOf(timezone)
	if err != nil {
		broken["timezone"] = "want a name of the IANA time zone database, such as Europe/Berlin"
		zone = time.UTC
	}
	if r, err = parseCron(expression); err != nil {
		broken["cron"] = err.Error()
		return r, broken
	}
	r.zone = zone
	switch {
	case r.next(time.Unix(0, 0)).IsZero():
		broken["cron"] = "the expression names no day that exists"
	case r.shortestGap() < MinCallGap:
		broken["cron"] = fmt.Sprintf("two calls must be at least %d minutes apart", int(MinCallGap.Minutes()))
	}
	return r, broken
}

func parseCron(expression string) (recurrence, error) {
	fields := strings.Fields(expression)
	const want = "want the five fields minute, hour, day of month, month and day of week, such as 30 9 * * MON-FRI"
	if len(expression) > maxCronBytes || len(fields) != 5 || strings.Contains(expression, "=") {
		return recurrence{}, errors.New(want)
	}
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(expression)
	spec, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return recurrence{}, errors.New(want)
	}
	spec.Location = time.UTC
	const everyHour = 1 << 63 // of the parser, for an asterisk
	return recurrence{spec: spec, hourly: spec.Hour&everyHour != 0}, nil
}

// zones has the time zones that were used: reading one takes longer than all that is done with it.
var zones sync.Map //nolint:gochecknoglobals // a cache of constants

// zoneOf returns the time zone with a name of the IANA database.
func zoneOf(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil //nolint:forcetypeassert // nothing else is stored
	}
	zone, err := image.Zone(name)
	if err != nil {
		return nil, fmt.Errorf("time zone: %w", err)
	}
	zones.Store(name, zone)
	return zone, nil
}

const (
	minutesOfHour = 60
	hoursOfDay    = 24
	fieldBits     = 1<<minutesOfHour - 1
	day           = hoursOfDay * time.Hour
)

// shortestGap is the shortest time between two due times of one day, and of one day and the next.
func (r recurrence) shortestGap() time.Duration {
	first, last, shortest := -1, -1, hoursOfDay*minutesOfHour
	for hour := range hoursOfDay {
		if r.spec.Hour&(1<<hour) == 0 {
			continue
		}
		for set := r.spec.Minute & fieldBits; set != 0; set &= set - 1 {
			minute := hour*minutesOfHour + bits.TrailingZeros64(set)
			if last >= 0 {
				shortest = min(shortest, minute-last)
			} else {
				first = minute
			}
			last = minute
		}
	}
	return time.Duration(min(shortest, first+hoursOfDay*minutesOfHour-last)) * time.Minute
}

// longestShift is more than any time zone moves its clocks.
const longestShift = 3 * time.Hour

// next returns the first due time after another; zero if there is none.
//
// An expression that names hours is due once a day for each of them, whatever the clocks do: a time that the clocks
// skip is due as much later as they move, and one that they show twice is due when they first show it. An expression
// that names no hours is due in each hour that passes.
func (r recurrence) next(after time.Time) time.Time {
	if r.spec == nil {
		return time.Time{}
	}
	local := after.In(r.zone)
	if r.hourly {
		return r.nextOfEachHour(local)
	}
	if at, ok := r.nextOfSteadyClock(local); ok {
		return at
	}
	var first, shown time.Time
	for wall := nextOf(r.spec, wallClock(local).Add(-longestShift)); !wall.IsZero(); wall = nextOf(r.spec, wall) {
		if !first.IsZero() && wall.Sub(shown) > longestShift {
			break
		}
		if at := r.instant(wall); at.After(after) && (first.IsZero() || at.Before(first)) {
			first, shown = at, wall
		}
	}
	return first
}

// nextOf returns the first time after another at which an expression is due. That is a full minute: the library would
// try each second before it.
func nextOf(spec *cron.SpecSchedule, after time.Time) time.Time {
	const lastSecond = 59
	return spec.Next(after.Add(time.Duration(lastSecond-after.Second()) * time.Second))
}

// nextOfEachHour is next for an expression that names no hours. The library is asked about clocks that are never moved,
// from one move to the next: with a time zone, it leaves out a day on which the clocks skip midnight.
func (r recurrence) nextOfEachHour(local time.Time) time.Time {
	begin, after := local, wallClock(local)
	for {
		wall := nextOf(r.spec, after)
		if wall.IsZero() {
			return time.Time{}
		}
		at := begin.Add(wall.Sub(wallClock(begin)))
		_, moved := begin.ZoneBounds()
		if moved.IsZero() || at.Before(moved) {
			return at.UTC()
		}
		begin, after = moved, wallClock(moved).Add(-time.Nanosecond)
	}
}

// nextOfSteadyClock is next for a time and a due time of about the same day, on which the clocks are not moved.
func (r recurrence) nextOfSteadyClock(local time.Time) (at time.Time, ok bool) {
	wall := nextOf(r.spec, wallClock(local))
	if wall.IsZero() || wall.Sub(wallClock(local)) > day {
		return time.Time{}, false
	}
	at = r.instant(wall)
	_, earlier := local.Add(-2 * longestShift).Zone()
	_, later := at.Add(2 * longestShift).In(r.zone).Zone()
	return at, earlier == later
}

// wallClock returns what a clock shows, as a time in UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant returns when a clock of the time zone first shows a time. For a time that the clocks skip, it is as if they
// had not been moved.
func (r recurrence) instant(wall time.Time) time.Time {
	offset := func(at time.Time) time.Duration {
		_, seconds := at.In(r.zone).Zone()
		return time.Duration(seconds) * time.Second
	}
	before, after := offset(wall.Add(-day)), offset(wall.Add(day))
	for _, o := range [...]time.Duration{max(before, after), min(before, after)} {
		if at := wall.Add(-o); offset(at) == o {
			return at
		}
	}
	return wall.Add(-before)
}
