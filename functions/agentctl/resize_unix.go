//go:build unix

package agentctl

import (
	"os"
	"os/signal"
	"syscall"
)

// sizeChanges returns a channel that says when the size of the user's terminal changed, and how to end that.
func sizeChanges() (changed <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	return signals, func() { signal.Stop(signals) }
}
