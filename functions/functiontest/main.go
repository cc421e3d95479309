package functiontest

import (
	"flag"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"testing"
)

// Main runs the tests of a package without the log lines of the calls that they make. go test -v shows them.
func Main(m *testing.M) {
	debug.SetGCPercent(400) // the tests leave much garbage and little else
	flag.Parse()
	if !testing.Verbose() {
		slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	}
	os.Exit(m.Run())
}
