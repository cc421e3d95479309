package function

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	infer "github.com/google/jsonschema-go/jsonschema"
)

// timeForm is the syntax of an RFC 3339 time. Go's parser is more lenient. The expression does not check that the day
// and the hour exist; Go's parser does.
var timeForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
})

var errNotRFC3339 = errors.New("not a time of RFC 3339")

// secondsStart and secondsEnd enclose the seconds in an RFC 3339 time, including the colon.
const (
	secondsStart = len("2006-01-02T15:04")
	secondsEnd   = len("2006-01-02T15:04:05")
)

// ParseTime parses an RFC 3339 time, the format date-time of request schemas. Unlike time.Parse it accepts lower-case
// letters and leap seconds; it reads a leap second as the second after it.
func ParseTime(text string) (time.Time, error) {
	plain := strings.ToUpper(text)
	if !timeForm().MatchString(plain) {
		return time.Time{}, errNotRFC3339
	}
	leap := plain[secondsStart:secondsEnd] == ":60"
	if leap {
		plain = plain[:secondsStart] + ":59" + plain[secondsEnd:]
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(plain)); err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", errNotRFC3339, err)
	}
	if !leap {
		return t, nil
	}
	if utc := t.UTC(); utc.Hour() != 23 || utc.Minute() != 59 {
		return time.Time{}, fmt.Errorf("%w: no leap second can be at %s UTC", errNotRFC3339, utc.Format("15:04"))
	}
	return t.Add(time.Second), nil
}

// Time is a time in a request. time.Time cannot be decoded from every text that ParseTime parses.
type Time struct{ time.Time }

// JSONSchema implements Schemer.
func (Time) JSONSchema() *infer.Schema { return &infer.Schema{Type: "string", Format: "date-time"} }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	if err == nil {
		t.Time, err = ParseTime(text)
	}
	return err
}

// checkTime accepts exactly the texts that ParseTime parses, so that every valid request can be decoded.
func checkTime(text string) error {
	_, err := ParseTime(text)
	return err
}
