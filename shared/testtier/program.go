package testtier

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes a program that the test starts. While it is open for writing, no other test of the process starts
// one: that one would inherit the open file, and Linux refuses to run a file that is open for writing ("text file
// busy").
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
}
