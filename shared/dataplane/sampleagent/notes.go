package sampleagent

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// maxNotes bounds the notes, and maxNoteBytes each of them.
	maxNotes     = 500
	maxNoteBytes = 4 << 10
)

// note is a text that a user wrote.
type note struct {
	ID      string    `json:"-"` // the file's name
	Text    string    `json:"text"`
	Author  string    `json:"author"`
	Created time.Time `json:"created"`
}

// notes stores each note in a file, which appears complete or not at all.
type notes struct {
	dir string
	now func() time.Time
	mu  sync.Mutex // one writer
}

func newNotes(dataDir string, now func() time.Time) *notes {
	return &notes{dir: filepath.Join(dataDir, "notes"), now: now}
}

var noteID = regexp.MustCompile(`^[A-Z2-7]{26}$`)

const noteSuffix = ".json"

// list returns all notes, newest first. Files that hold no note are left out.
func (n *notes) list() ([]note, error) {
	entries, err := os.ReadDir(n.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all []note
	for _, e := range entries {
		id, isNote := strings.CutSuffix(e.Name(), noteSuffix)
		if !isNote || !noteID.MatchString(id) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(n.dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) { // deleted since
			continue
		}
		if err != nil {
			return nil, err
		}
		found := note{}
		if json.Unmarshal(b, &found) == nil {
			found.ID = id
			all = append(all, found)
		}
	}
	slices.SortFunc(all, func(a, b note) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID))
	})
	return all, nil
}

// add stores a note.
func (n *notes) add(text, author string) error {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return userError("Write something first.")
	case len(text) > maxNoteBytes:
		return userError(fmt.Sprintf("A note has at most %d characters.", maxNoteBytes))
	case !utf8.ValidString(text):
		return userError("The note is not valid text.")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return err
	}
	if len(entries) >= maxNotes {
		return userError(fmt.Sprintf("There are %d notes already. Delete one first.", maxNotes))
	}
	b, err := json.Marshal(note{Text: text, Author: author, Created: n.now().UTC()})
	if err != nil {
		return err
	}
	return writeFile(n.dir, rand.Text()+noteSuffix, b)
}

// remove deletes a note. A note that does not exist is deleted already.
func (n *notes) remove(id string) error {
	if !noteID.MatchString(id) {
		return userError("There is no such note.")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := os.Remove(filepath.Join(n.dir, id+noteSuffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(n.dir)
}

// writeFile writes a file that survives a crash of the machine completely, or is not there.
func writeFile(dir, name string, b []byte) (err error) {
	temporary, err := os.CreateTemp(dir, ".writing-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(b)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes the names in a directory survive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
