package firestore

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
)

// position is the position of an item in a list.
type position struct {
	createdAt  time.Time
	tieBreaker string
}

// values are the position's values in the order of a list.
func (p position) values() []any { return []any{p.createdAt, p.tieBreaker} }

const (
	// cursorVersion begins every cursor, so that the format can change.
	cursorVersion = "1"
	maxCursor     = 512
)

// cursor encodes a position. A cursor is bound to its list, but not to the filters, and contains only what the client
// may see. The checksum detects a cursor that was cut or mistyped, which would silently lead to another position. It
// does not prevent forgery.
func (p position) cursor(collection string) string {
	text := strings.Join([]string{
		cursorVersion, collection, strconv.FormatInt(p.createdAt.UnixNano(), 10),
		p.tieBreaker,
	}, " ")
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32([]byte(text),
		crc32.ChecksumIEEE([]byte(text))))
}

func parseCursor(collection, cursor string) (position, bool) {
	if len(cursor) > maxCursor {
		return position{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < crc32.Size {
		return position{}, false
	}
	text, sum := raw[:len(raw)-crc32.Size], raw[len(raw)-crc32.Size:]
	parts := strings.SplitN(string(text), " ", 4)
	if crc32.ChecksumIEEE(text) != binary.BigEndian.Uint32(sum) || len(parts) != 4 {
		return position{}, false
	}
	nanos, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || nanos < 0 || parts[0] != cursorVersion || parts[1] != collection || !validID(parts[3]) {
		return position{}, false
	}
	return position{time.Unix(0, nanos).UTC(), parts[3]}, true
}
