package seal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Line is a line of an export that has a seal. All other lines of an export are entries. An export has its seals first,
// the oldest first, and then its entries, the newest first. The seals must have been read before the entries, so that
// the export has every entry of its seals.
type Line struct {
	Seal *Seal `json:"seal"`
}

// ErrNoSeals is the error for an export without seals.
var ErrNoSeals = errors.New("the export has no seals")

// VerifyExport compares the entries of an export with its seals. It reads the export once, and holds all leaves in
// memory. Errors: ErrNoSeals, ErrUnknownFormat, those of r, and those of a line that is not JSON.
func VerifyExport(r io.Reader, now func() time.Time, anchor *Anchor) (Report, error) {
	var v *Verifier
	var last Entry
	err := eachLine(r, func(s *Seal, line []byte) error {
		if s != nil {
			if v == nil {
				v = NewVerifier(now, anchor)
			}
			v.AddSeal(*s)
			return nil
		}
		if v == nil {
			return ErrNoSeals
		}
		e, err := ParseEntry(line)
		if err != nil {
			return err
		}
		if last.ID != "" && !precedes(last, e) {
			v.misplaced(e.ID)
		}
		last = Entry{ID: e.ID, CreatedAt: e.CreatedAt}
		return v.AddEntry(e)
	})
	if err != nil {
		return Report{}, err
	}
	if v == nil {
		return Report{}, ErrNoSeals
	}
	return v.Finish(), nil
}

// precedes reports whether an entry stands before another one in a list that begins with the newest.
func precedes(a, b Entry) bool {
	return a.CreatedAt.After(b.CreatedAt) || a.CreatedAt.Equal(b.CreatedAt) && a.ID > b.ID
}

// NewestOf returns the newest seal of an export. Errors: those of VerifyExport.
func NewestOf(r io.Reader) (Anchor, error) {
	var newest Anchor
	err := eachLine(r, func(s *Seal, _ []byte) error {
		if s != nil && s.Sequence > newest.Sequence {
			newest = s.Anchor()
		}
		return nil
	})
	if err == nil && newest.Sequence == 0 {
		err = ErrNoSeals
	}
	return newest, err
}

// eachLine visits the lines of an export. The seal is nil for an entry.
func eachLine(r io.Reader, visit func(s *Seal, line []byte) error) error {
	for lines, number := bufio.NewReader(r), 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return fmt.Errorf("read an export: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var l Line
			if err := json.Unmarshal(line, &l); err != nil {
				return fmt.Errorf("line %d is no line of an export: %w", number, err)
			}
			if err := visit(l.Seal, line); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		if ended {
			return nil
		}
	}
}
