package front_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
)

// TestSleep_AsksTheContainerWhetherItIsBusy looks at when the door of a container without requests closes.
func TestSleep_AsksTheContainerWhetherItIsBusy(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) string { // in virtual time, which begins then
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(time.RFC3339)
	}
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { answerJSON(body)(w) }
	}
	const never, anHourLater = 0, sleepAfter + time.Hour
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		want   time.Duration
	}{
		"not busy":             {answer: text(`{"busy": false}`), want: sleepAfter},
		"busy":                 {answer: text(`{"busy": true}`), want: never},
		"busy until a time":    {answer: text(`{"busy": true, "until": "` + at(20*time.Minute) + `"}`), want: 20 * time.Minute},
		"busy until the past":  {answer: text(`{"busy": true, "until": "` + at(time.Minute) + `"}`), want: sleepAfter},
		"not busy until later": {answer: text(`{"busy": false, "until": "` + at(time.Hour) + `"}`), want: sleepAfter},
		"more than is asked":   {answer: text(`{"busy": false, "jobs": [1, 2]}`), want: sleepAfter},
		"no time":              {answer: text(`{"busy": true, "until": null}`), want: never},
		"another time":         {answer: text(`{"busy": true, "until": "tomorrow"}`), want: anHourLater},
		"a page":               {answer: text("<html>"), want: anHourLater},
		"an empty object":      {answer: text(`{}`), want: anHourLater},
		"a number":             {answer: text(`{"busy": 1}`), want: anHourLater},
		"a large answer": {
			answer: text(`{"busy": false, "x": "` + strings.Repeat("x", 4<<10) + `"}`), want: anHourLater,
		},
		"an error": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				answerJSON(`{"busy": true}`)(w)
			},
			want: anHourLater,
		},
		"a redirect": {
			answer: http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, want: anHourLater,
		},
		"no answer": {
			answer: func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() },
			want:   anHourLater,
		},
		"an answer that does not end": {
			answer: func(w http.ResponseWriter, req *http.Request) { flush(w); <-req.Context().Done() },
			want:   anHourLater,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container := func(w http.ResponseWriter, req *http.Request) {
				switch req.URL.Path {
				case "/healthz":
				case "/busy":
					if req.RequestURI != "/busy?x=1" || req.Method != http.MethodGet ||
						req.Header.Get("Authorization") != "" {
						t.Errorf("the busy path gets %s %s with %v", req.Method, req.URL, req.Header)
					}
					row.answer(w, req)
				default:
					t.Errorf("the container gets %s", req.URL)
				}
			}
			change := func(o *front.Options) { o.BusyPath, o.ForwardCredentials = "/busy?x=1", true }
			runSleeper(t, container, change, func(t *testing.T, s *sleeper) {
				if row.want == never {
					s.until(26 * time.Hour)
					s.wantReported(t, "in a day")
					return
				}
				s.until(row.want - time.Second)
				s.wantReported(t, "before it is not busy")
				s.until(row.want + 3*time.Minute) // looks are a minute and an answer of two seconds apart
				if got := s.reported(); len(got) != 1 {
					t.Errorf("the door was reported at %v, want it soon after %s", got, row.want)
				}
			})
		})
	}
}

// TestSleep_ReadsTheBusyFile touches the file once.
func TestSleep_ReadsTheBusyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runSleeper(t, answers, func(o *front.Options) { o.DataDir = dir }, func(t *testing.T, s *sleeper) {
		s.until(4 * time.Minute)
		writeBusy(t, dir, "15m\n", time.Now())
		s.until(19*time.Minute - time.Nanosecond)
		s.wantReported(t, "while the file says so")
		s.until(20 * time.Minute)
		if got := s.reported(); len(got) != 1 {
			t.Errorf("the door was reported at %v, want it within the minute after that", got)
		}
	})
}

func writeBusy(t *testing.T, dir, content string, at time.Time) {
	t.Helper()
	name := filepath.Join(dir, dataplane.BusyFile)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestBusyFile_SaysForHowLong has the last moment in which a file says that the container is busy.
func TestBusyFile_SaysForHowLong(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, row := range map[string]struct {
		content string
		mode    os.FileMode
		want    time.Duration // from the file's time
	}{
		"empty":             {content: "", want: 10 * time.Minute},
		"a line's end":      {content: "\n", want: 10 * time.Minute},
		"seconds":           {content: "90", want: 90 * time.Second},
		"seconds in a line": {content: " 90\r\n", want: 90 * time.Second},
		"a duration":        {content: "1h30m", want: 90 * time.Minute},
		"nothing":           {content: "0", want: 0},
		"a day":             {content: "24h", want: 24 * time.Hour},
		"a week":            {content: "168h", want: 24 * time.Hour},
		"a week in seconds": {content: "604800", want: 24 * time.Hour},
		"words":             {content: "until tomorrow", want: time.Hour},
		"a negative time":   {content: "-5m", want: time.Hour},
		"negative seconds":  {content: "-5", want: time.Hour},
		"no number":         {content: "NaN", want: time.Hour},
		"a huge number":     {content: strings.Repeat("9", 40), want: time.Hour},
		"64 bytes":          {content: "5m" + strings.Repeat(" ", 62), want: 5 * time.Minute},
		"a large file":      {content: "5m" + strings.Repeat(" ", 63), want: time.Hour},
		"unreadable":        {content: "5m", mode: 0o200, want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.mode != 0 && os.Geteuid() == 0 {
				t.Skip("root reads every file")
			}
			dir := t.TempDir()
			for _, c := range []struct {
				age  time.Duration
				want string
			}{{age: row.want - time.Nanosecond, want: "occupied"}, {age: row.want, want: "restful"}} {
				if c.age < 0 {
					continue
				}
				writeBusy(t, dir, row.content, now.Add(-c.age))
				if row.mode != 0 {
					if err := os.Chmod(filepath.Join(dir, dataplane.BusyFile), row.mode); err != nil {
						t.Fatal(err)
					}
				}
				if got := front.ReadBusyFile(dir, now); got != c.want {
					t.Errorf("a file of %s is %s, want %s", c.age, got, c.want)
				}
				_ = os.Remove(filepath.Join(dir, dataplane.BusyFile))
			}
		})
	}
}

// TestBusyFile_IsARegularFileOfThePast has what else a container may put there.
func TestBusyFile_IsARegularFileOfThePast(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, row := range map[string]struct {
		make func(dir, name string) error
		want string
	}{
		"nothing":     {make: func(string, string) error { return nil }, want: "restful"},
		"a directory": {make: func(_, name string) error { return os.Mkdir(name, 0o700) }, want: "restful"},
		"a pipe":      {make: func(_, name string) error { return syscall.Mkfifo(name, 0o600) }, want: "restful"},
		"a link": {
			make: func(dir, name string) error {
				target := filepath.Join(dir, "target")
				return errFirst(os.WriteFile(target, nil, 0o600), os.Symlink(target, name))
			},
			want: "restful",
		},
		"a file of now": {make: func(_, name string) error { return os.WriteFile(name, nil, 0o600) }, want: "occupied"},
		"a file of the future": {
			make: func(_, name string) error {
				return errFirst(os.WriteFile(name, nil, 0o600), os.Chtimes(name, now, now.Add(time.Hour)))
			},
			want: "unclear",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := row.make(dir, filepath.Join(dir, dataplane.BusyFile)); err != nil {
				t.Fatal(err)
			}
			if got := front.ReadBusyFile(dir, now); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
	if got := front.ReadBusyFile("", now); got != "restful" {
		t.Errorf("no volume: %s, want restful", got)
	}
}

func errFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
