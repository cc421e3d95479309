package front

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

const (
	// busyTimeout and maxBusyBytes bound an answer on the busy path.
	busyTimeout  = 2 * time.Second
	maxBusyBytes = 4 << 10
	// busyInterval is how often a container is asked that has no requests and does not sleep because it is busy.
	busyInterval = time.Minute
	// unknownTime is how long a container without requests stays awake because it does not say, or not clearly, whether
	// it is busy: a broken busy path must not keep its agent awake forever.
	unknownTime = time.Hour

	// maxFileBytes bounds what is read of the file on the volume.
	maxFileBytes = 64
	// emptyFileTime is how long an empty file says that the container is busy, and oddFileTime one that says nothing
	// that can be read. maxFileTime bounds what a file can say.
	emptyFileTime = 10 * time.Minute
	oddFileTime   = time.Hour
	maxFileTime   = 24 * time.Hour
	// fileSkew is how far in the future the time of a file may be.
	fileSkew = time.Minute
)

// activity is what a container says about itself, in the order of what wins.
type activity int

const (
	restful activity = iota
	unclear
	occupied
)

// staysAwake reports whether the container is busy. It has two ways to say so, and each may be absent:
//
//   - The busy path answers 200 with {"busy": true}, and possibly {"until": "2026-11-27T18:00:00Z"}, after which the
//     container is not busy. The front asks without a credential.
//   - The file dataplane.BusyFile on the volume has a number of seconds or a duration such as 10m. The container is
//     busy for that long after the file's last change.
//
// overdue is how long the agent has been idle beyond the time after which it sleeps. A container of which it is unclear
// whether it is busy stays awake for at most unknownTime of that.
func (f *Front) staysAwake(ctx context.Context, overdue time.Duration) bool {
	now := f.options.Now()
	switch max(f.askBusy(ctx, now), readBusyFile(f.options.DataDir, now)) {
	case occupied:
		return true
	case unclear:
		return overdue < unknownTime
	default:
		return false
	}
}

// askBusy asks the container on its busy path.
func (f *Front) askBusy(ctx context.Context, now time.Time) activity {
	if f.options.BusyPath == "" {
		return restful
	}
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	target := "http://" + loopback(f.options.Port) + f.options.BusyPath
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return unclear
	}
	req.Host = f.options.Hostname
	req.Header.Set("User-Agent", "agent-front")
	res, err := bounded{f.transport}.RoundTrip(req) // follows no redirect
	if err != nil {
		return unclear
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBusyBytes+1))
	if err != nil || res.StatusCode != http.StatusOK || len(body) > maxBusyBytes {
		return unclear
	}
	var answer struct {
		Busy  *bool
		Until *time.Time
	}
	switch err := json.Unmarshal(body, &answer); {
	case err != nil || answer.Busy == nil:
		return unclear
	case !*answer.Busy || answer.Until != nil && !now.Before(*answer.Until):
		return restful
	default:
		return occupied
	}
}

// readBusyFile reads the file of a volume. What is there in the place of a regular file says nothing. A file of the
// future is unclear: its time would come again and again.
func readBusyFile(dir string, now time.Time) activity {
	if dir == "" {
		return restful
	}
	name := filepath.Join(dir, dataplane.BusyFile)
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return restful
	case err != nil:
		return unclear
	case !info.Mode().IsRegular():
		return restful
	case info.ModTime().After(now.Add(fileSkew)):
		return unclear
	case now.Before(info.ModTime().Add(busyTime(name))):
		return occupied
	default:
		return restful
	}
}

// busyTime returns how long a file says that the container is busy. The container may replace the file by anything at
// any time, so it is opened without following a link and without waiting for the other end of a pipe.
func busyTime(name string) time.Duration {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return oddFileTime
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return oddFileTime
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes))
	if err != nil {
		return oddFileTime
	}
	text := strings.TrimSpace(string(content))
	if text == "" {
		return emptyFileTime
	}
	if _, err := strconv.ParseUint(text, 10, 32); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return oddFileTime
	}
	return min(d, maxFileTime)
}
