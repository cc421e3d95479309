package containerlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lines returns the lines of a log without their times.
func lines(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		all = append(all, rest)
	}
	return all
}

func TestStream_CutsOutputIntoLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	for name, row := range map[string]struct {
		writes []string
		want   []string
	}{
		"two lines in one write":  {writes: []string{"a\nb\n"}, want: []string{"stdout F a", "stdout F b"}},
		"a line in two writes":    {writes: []string{"a", "b\n"}, want: []string{"stdout F ab"}},
		"last line without end":   {writes: []string{"a"}, want: []string{"stdout F a"}},
		"empty line":              {writes: []string{"\n"}, want: []string{"stdout F "}},
		"line of the full length": {writes: []string{long + "\n"}, want: []string{"stdout F " + long}},
		"line that is too long":   {writes: []string{long + "y\n"}, want: []string{"stdout P " + long, "stdout F y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "0.log")
			log, err := Create(path)
			if err != nil {
				t.Fatal(err)
			}
			stream := log.Stream("stdout")
			for _, text := range row.writes {
				_, _ = stream.Write([]byte(text))
			}
			if err := stream.Close(); err != nil {
				t.Fatal(err)
			}
			if got := lines(t, path); strings.Join(got, "\n") != strings.Join(row.want, "\n") {
				t.Errorf("log %.80q, want %.80q", got, row.want)
			}
		})
	}
}

func TestLog_RotatesAtItsLimit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	log, err := create(path, 200)
	if err != nil {
		t.Fatal(err)
	}
	stream := log.Stream("stderr")
	for i := range 20 {
		_, _ = fmt.Fprintf(stream, "line %d\n", i)
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 200 {
		t.Errorf("size of the log %v, %v; want at most 200 bytes", info.Size(), err)
	}
	if got := lines(t, path); got[len(got)-1] != "stderr F line 19" {
		t.Errorf("last line %q, want that of the last write", got[len(got)-1])
	}
	if len(lines(t, path+rotatedSuffix)) == 0 {
		t.Error("the lines before the rotation are gone")
	}
	if Remove(path); len(glob(t, path+"*")) > 0 {
		t.Error("Remove leaves files")
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
