package profile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

const (
	fileMode = 0o600
	dirMode  = 0o700
	// othersMode are the permissions of all users but the owner.
	othersMode = 0o077
	// maxFile bounds what is read. A profile takes a few kilobytes.
	maxFile = 16 << 20

	// lockTimeout is how long a process waits for another one, which renews a session in the longest case.
	lockTimeout = time.Minute
	lockPause   = 20 * time.Millisecond
)

// Store is the configuration file. It is safe for concurrent use, also by several processes.
type Store struct {
	// Path is the file. If it is empty, nothing is stored and nothing can be.
	Path string
}

// In returns the store in the user's configuration directory, which os.UserConfigDir returns, such as
// ~/.config/agentctl/config.json. An empty directory gives an empty store.
func In(configDir string) Store {
	if configDir == "" {
		return Store{}
	}
	return Store{Path: filepath.Join(configDir, "agentctl", "config.json")}
}

// Load reads the file. A file that does not exist is empty. It refuses a file that other users can read.
func (s Store) Load() (File, error) {
	none := File{Profiles: map[string]Profile{}}
	if s.Path == "" {
		return none, nil
	}
	f, err := os.Open(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("your configuration cannot be read: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return none, fmt.Errorf("your configuration cannot be read: %w", err)
	}
	if err := checkMode(s.Path, info); err != nil {
		return none, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return none, fmt.Errorf("your configuration cannot be read: %w", err)
	}
	var read File
	if err := json.Unmarshal(b, &read); err != nil { // the error names an offset or a type, never a value
		return none, fmt.Errorf("%s is not valid: %w. Repair the file, or remove it and run: agentctl login", s.Path,
			err)
	}
	if read.Profiles == nil {
		read.Profiles = none.Profiles
	}
	return read, nil
}

// checkMode refuses a file that other users of the machine can read or change. Windows has no such modes; the
// directory's access list protects the file there.
func checkMode(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file. Remove it and run: agentctl login", path)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&othersMode != 0 {
		return fmt.Errorf("%s holds credentials, but its mode %04o lets other users use them. Run: chmod 600 %s",
			path, mode, path)
	}
	return nil
}

// Update changes the file under a lock that excludes other processes. A failed change leaves the file as it was. The
// file is known to be writable before change is called, which may spend a refresh token.
func (s Store) Update(ctx context.Context, change func(*File) error) error {
	if s.Path == "" {
		return errors.New("your configuration cannot be stored, because its directory is unknown. Set HOME or " +
			"XDG_CONFIG_HOME, or use AGENTS_BASE_URL and AGENTS_API_KEY")
	}
	if err := os.MkdirAll(filepath.Dir(s.Path), dirMode); err != nil {
		return fmt.Errorf("your configuration cannot be stored: %w", err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	next, err := s.newReplacement()
	if err != nil {
		return fmt.Errorf("your configuration cannot be stored: %w", err)
	}
	defer next.discard()
	file, err := s.Load()
	if err != nil {
		return err
	}
	if err := change(&file); err != nil {
		return err
	}
	b, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = next.commit(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("your configuration could not be stored: %w", err)
	}
	return nil
}

// lock waits for the lock of the file. The operating system releases it when the process ends, however it ends.
func (s Store) lock(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock := flock.New(s.Path+".lock", flock.SetPermissions(fileMode))
	locked, err := lock.TryLockContext(ctx, lockPause)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("another agentctl uses your configuration. End it, or retry: %s is locked", s.Path)
	case err != nil:
		return nil, fmt.Errorf("your configuration cannot be locked: %w", err)
	case !locked:
		return nil, fmt.Errorf("your configuration cannot be locked: %s", s.Path)
	}
	return func() { _ = lock.Close() }, nil // the process that ends releases it anyway
}

// Save adds or replaces a profile and makes it the current one.
func (s Store) Save(ctx context.Context, name string, p Profile) error {
	if err := CheckName(name); err != nil {
		return err
	}
	p.BaseURL = cleanURL(p.BaseURL)
	return s.Update(ctx, func(f *File) error {
		f.Profiles[name], f.Current = p, name
		return nil
	})
}

// Use makes a profile the current one.
func (s Store) Use(ctx context.Context, name string) error {
	return s.Update(ctx, func(f *File) error {
		if _, known := f.Profiles[name]; !known {
			return &UnknownError{Name: name, Known: f.Names()}
		}
		f.Current = name
		return nil
	})
}

// Remove removes a profile with its credential. If it was the current one, the default profile is current.
func (s Store) Remove(ctx context.Context, name string) error {
	return s.Update(ctx, func(f *File) error {
		if _, known := f.Profiles[name]; !known {
			return &UnknownError{Name: name, Known: f.Names()}
		}
		delete(f.Profiles, name)
		if f.Current == name {
			f.Current = ""
		}
		return nil
	})
}

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
