package function

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// timeForm is the form of a time; Go reads more than that as one. Whether there is such a day and such an hour is not
// in it.
var timeForm = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

var errNoTime = errors.New("not a time of RFC 3339")

// leapAt and leapEnd enclose the seconds of an RFC 3339 time.
const (
	leapAt  = len("2006-01-02T15:04")
	leapEnd = len("2006-01-02T15:04:05")
)

// ParseTime reads a time as RFC 3339 writes it. That lets its letters be small and has leap seconds, and Go's form of a
// time has neither; a leap second is read as the moment after it. What it reads is what a request may have where a
// schema says date-time.
func ParseTime(text string) (time.Time, error) {
	plain := strings.ToUpper(text)
	if !timeForm.MatchString(plain) {
		return time.Time{}, errNoTime
	}
	leap := plain[leapAt:leapEnd] == ":60"
	if leap {
		plain = plain[:leapAt] + ":59" + plain[leapEnd:]
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(plain)); err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", errNoTime, err)
	}
	if !leap {
		return t, nil
	}
	if utc := t.UTC(); utc.Hour() != 23 || utc.Minute() != 59 {
		return time.Time{}, fmt.Errorf("%w: no leap second can be at %s UTC", errNoTime, utc.Format("15:04"))
	}
	return t.Add(time.Second), nil
}

// checkTime accepts what ParseTime reads, so that what is valid can be decoded.
func checkTime(v any) error {
	s, ok := v.(string)
	if !ok {
		return nil // the type is another keyword's business
	}
	_, err := ParseTime(s)
	return err
}
