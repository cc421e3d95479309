package agentlog

import (
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Position is a place in the log of one container: after one line of it, or before all of them. The zero value is no
// place.
//
// The time alone does not identify a line, because lines may share it. The number of lines with that time before it
// would not identify it either: a reader of the log's tail does not see all of them. The text does, together with how
// often it occurred at that time.
type Position struct {
	// Container identifies one run of the container, in 16 hexadecimal digits.
	Container string
	// Time is the time of the line. Before the first line it is a lower bound on the times of the lines to read.
	Time time.Time
	// Text is a hash of the line's message, and Occurrence counts equal messages at the time of the line. Both are zero
	// before the first line.
	Text       uint32
	Occurrence int
}

// PositionPattern is the syntax of a position.
const PositionPattern = `^[0-9a-f]{16}-[0-9]{1,19}-[0-9a-f]{8}-[0-9]{1,9}$`

var positionForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(PositionPattern) })

// Container returns an identifier of one run of a container for positions, from the identifiers of a cell.
func Container(pod, container string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(pod + "/" + container)) // a hash never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// String writes a position for clients, to whom it is opaque.
func (p Position) String() string {
	return fmt.Sprintf("%s-%d-%08x-%d", p.Container, nanoseconds(p.Time), p.Text, p.Occurrence)
}

// ParsePosition parses what String wrote. A time beyond those of String becomes the last of them.
func ParsePosition(text string) (Position, error) {
	if !positionForm().MatchString(text) {
		return Position{}, errors.New("not a position in a log")
	}
	parts := strings.Split(text, "-")
	// The pattern leaves one error: a time out of range, for which ParseInt returns the last one.
	nano, _ := strconv.ParseInt(parts[1], 10, 64)
	sum, _ := strconv.ParseUint(parts[2], 16, 32)
	occurrence, _ := strconv.Atoi(parts[3])
	p := Position{Container: parts[0], Text: uint32(sum), Occurrence: occurrence}
	if nano > 0 {
		p.Time = time.Unix(0, nano).UTC()
	}
	return p, nil
}

// nanoseconds is a time in Unix nanoseconds, and 0 for an unknown time.
func nanoseconds(t time.Time) int64 {
	if t.Unix() <= 0 {
		return 0
	}
	return t.UnixNano()
}

// after returns the position after a line that follows this position in the log.
func (p Position) after(l Line, seen map[uint32]int) Position {
	if p.Occurrence == 0 || !l.Time.Equal(p.Time) {
		clear(seen)
	}
	text := hashMessage(l)
	seen[text]++
	return Position{Container: p.Container, Time: l.Time, Text: text, Occurrence: seen[text]}
}

func hashMessage(l Line) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.Message))
	return h.Sum32()
}

// is reports whether two positions are the same.
func (p Position) is(other Position) bool {
	return p.Container == other.Container && p.Text == other.Text && p.Occurrence == other.Occurrence &&
		nanoseconds(p.Time) == nanoseconds(other.Time)
}
