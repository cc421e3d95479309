package function

import (
	"encoding/json"
	"errors"
	"time"

	infer "github.com/google/jsonschema-go/jsonschema"
)

// SinceFormat is the format of Since in the schemas that validate requests.
const SinceFormat = "date-time-or-duration"

var errNotSince = errors.New("neither a time of RFC 3339 nor a positive duration such as 10m")

// Since is the beginning of a period in a query: a time, or a duration before the request. The zero value is none.
type Since struct {
	at  time.Time
	ago time.Duration
}

// JSONSchema implements Schemer.
func (Since) JSONSchema() *infer.Schema { return &infer.Schema{Type: "string", Format: SinceFormat} }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Since) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	parsed, err := ParseSince(text)
	*s = parsed
	return err
}

// ParseSince parses a time of RFC 3339, or a positive duration in the syntax of Go, such as "10m" or "1h30m".
func ParseSince(text string) (Since, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return Since{ago: ago}, nil
	}
	at, err := ParseTime(text)
	if err != nil {
		return Since{}, errNotSince
	}
	return Since{at: at}, nil
}

// Time returns the beginning of the period for a request at now. It is the zero time for no beginning, and for one
// before 1970: nothing is older, and systems disagree on how to write such times.
func (s Since) Time(now time.Time) time.Time {
	at := s.at
	if s.ago > 0 {
		at = now.Add(-s.ago)
	}
	if at.Unix() <= 0 {
		return time.Time{}
	}
	return at
}

// checkSince accepts exactly the texts that ParseSince parses, so that every valid request can be decoded.
func checkSince(text string) error {
	_, err := ParseSince(text)
	return err
}
