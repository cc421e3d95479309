package event

import (
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/fault"
)

// ID identifies an event and is its place in the order: ids compare as strings in the order in which their events were
// committed. It consists of the prefix, the time of the commit, the id of the commit's record and the event's index in
// that record. Events of one time are ordered by the rest.
type ID string

const (
	prefix = "evt_"
	// timeDigits hold microseconds until the year 3111.
	timeDigits = 11
	// RecordDigits is the length of a record's id.
	RecordDigits = 12
	indexDigits  = 2
	// MaxEvents is how many events a record may have.
	MaxEvents = 32 * 32
)

// alphabet is that of RFC 4648's base32hex, which preserves the order of numbers.
const alphabet = "0123456789abcdefghijklmnopqrstuv"

// pattern is what an id looks like.
const pattern = "^" + prefix + "[0-9a-v]{25}$"

// Start is the cursor before every event.
const Start ID = prefix + "0000000000000000000000000"

// NewID makes the id of an event.
func NewID(at time.Time, record string, index int) ID {
	return ID(prefix + digits(uint64(at.UnixMicro()), timeDigits) + record + digits(uint64(index), indexDigits))
}

// RecordID makes the id of a record from random bits.
func RecordID(random uint64) string { return digits(random, RecordDigits) }

// After returns the cursor after every event that was committed at or before t.
func After(t time.Time) ID {
	return NewID(t, strings.Repeat("v", RecordDigits), MaxEvents-1)
}

// digits writes the lowest n digits of a number.
func digits(number uint64, n int) string {
	text := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		text[i] = alphabet[number&31]
		number >>= 5
	}
	return string(text)
}

// ParseID reads an id. Errors: BadRequest.
func ParseID(text string) (ID, error) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok || len(digits) != len(Start)-len(prefix) || strings.Trim(digits, alphabet) != "" {
		return "", fault.New(fault.BadRequest, "invalid_cursor",
			"The cursor is not the id of an event. Start again without a cursor.")
	}
	return ID(text), nil
}

// Time is when the event was committed.
func (id ID) Time() time.Time {
	var micros int64
	for _, c := range id[len(prefix) : len(prefix)+timeDigits] {
		micros = micros<<5 | int64(strings.IndexRune(alphabet, c))
	}
	return time.UnixMicro(micros).UTC()
}

// Record is the id of the record that holds the event.
func (id ID) Record() string {
	return string(id[len(prefix)+timeDigits : len(id)-indexDigits])
}

// Index is the event's index in its record.
func (id ID) Index() int {
	high, low := id[len(id)-2], id[len(id)-1]
	return strings.IndexByte(alphabet, high)<<5 | strings.IndexByte(alphabet, low)
}

// JSONSchema implements function.Schemer.
func (ID) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: pattern}
}
