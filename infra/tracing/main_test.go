package tracing

import (
	"log/slog"
	"os"
	"testing"
)

// TestMain silences the log of the functions that tests call.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}
