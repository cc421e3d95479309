package keptlog_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"agents.example/controlplane/infra/gke/keptlog"
	"agents.example/controlplane/shared/agentlog"
)

func TestTail_KeepsTheLastWholeLines(t *testing.T) {
	t.Parallel()
	line := func(size int) string { return strings.Repeat("x", size-1) + "\n" }
	const limit = agentlog.MaxKeptBytes
	for name, test := range map[string]struct {
		log, want string
	}{
		"nothing":                     {},
		"a little":                    {log: "a\nb\n", want: "a\nb\n"},
		"no end of line":              {log: "a\nb", want: "a\nb"},
		"all that fits":               {log: line(limit), want: line(limit)},
		"a line that is cut":          {log: "first\n" + line(limit-3) + "z\n", want: line(limit-3) + "z\n"},
		"an end between lines":        {log: "first\n" + line(limit), want: line(limit)},
		"one line that is too long":   {log: line(2 * limit), want: line(limit)},
		"the last line is too long":   {log: "first\n" + line(2*limit), want: line(limit)},
		"much more than what is kept": {log: strings.Repeat(line(1024), 500), want: strings.Repeat(line(1024), 64)},
		"lines that do not divide it": {log: strings.Repeat(line(1000), 500), want: strings.Repeat(line(1000), 65)},
		"a long log without its end": {
			log: strings.Repeat(line(1024), 500) + "end", want: strings.Repeat(line(1024), 63) + "end",
		},
		"an empty line before the cut": {log: "\n" + line(limit), want: line(limit)},
	} {
		for way, reader := range map[string]io.Reader{
			"whole": strings.NewReader(test.log), "in halves": iotest.HalfReader(strings.NewReader(test.log)),
			"with its end": iotest.DataErrReader(strings.NewReader(test.log)),
		} {
			got, err := keptlog.Tail(reader)
			if err != nil || string(got) != test.want {
				t.Errorf("%s, read %s: %d bytes, %v, want the last %d", name, way, len(got), err, len(test.want))
			}
		}
	}
	broken := errors.New("broken")
	if _, err := keptlog.Tail(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v, want that of the log", err)
	}
}

func TestOpen_ReadsWhatCompressWrote(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ log, want int }{
		"nothing": {}, "a log": {log: 1000, want: 1000},
		"more than is kept": {log: 2 * agentlog.MaxKeptBytes, want: agentlog.MaxKeptBytes},
	} {
		compressed, err := keptlog.Compress(bytes.Repeat([]byte{'x'}, test.log))
		if err != nil {
			t.Fatal(err)
		}
		log, err := keptlog.Open(compressed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(log); err != nil || len(got) != test.want {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, test.want)
		}
	}
	if _, err := keptlog.Open([]byte("no log")); err == nil {
		t.Error("what is not compressed opens, want an error")
	}
}

func TestDescribe_ReadsWhatAnnotationsWrote(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	for _, e := range []agentlog.Ended{
		{Container: "c", StartedAt: at, EndedAt: at.Add(time.Hour), ExitCode: 137, Reason: "OOMKilled", Run: 3},
		{Container: "c", EndedAt: at},
	} {
		if got, ok := keptlog.Describe(keptlog.Annotations(e)); !ok || got != e {
			t.Errorf("got %+v, %t, want %+v", got, ok, e)
		}
	}
	for _, bad := range []map[string]string{nil, keptlog.Annotations(agentlog.Ended{EndedAt: at})} {
		if _, ok := keptlog.Describe(bad); ok {
			t.Errorf("%v describes a container, want that it does not", bad)
		}
	}
}
