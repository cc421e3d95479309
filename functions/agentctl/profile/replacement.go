package profile

import (
	"errors"
	"os"
	"path/filepath"
)

// replacement is a new version of the file, which is written next to it and then takes its place in one step. Readers
// see the old version or the new one, never a part.
type replacement struct {
	file   *os.File
	target string
}

func (s Store) newReplacement() (*replacement, error) {
	target := s.Path
	if linked, err := filepath.EvalSymlinks(target); err == nil {
		target = linked // a link stays, and what it leads to is replaced
	}
	f, err := os.CreateTemp(filepath.Dir(target), ".config-*") // with the mode 0600
	if err != nil {
		return nil, err
	}
	return &replacement{file: f, target: target}, nil
}

// commit writes the content and puts the file in place.
func (r *replacement) commit(content []byte) error {
	_, err := r.file.Write(content)
	if err == nil {
		err = r.file.Sync() // a crash must not leave an empty file
	}
	if err = errors.Join(err, r.file.Close()); err != nil {
		return err
	}
	return os.Rename(r.file.Name(), r.target)
}

// discard removes the file, unless it was put in place.
func (r *replacement) discard() {
	_ = r.file.Close()           // it may be closed
	_ = os.Remove(r.file.Name()) // it may have another name by now
}
