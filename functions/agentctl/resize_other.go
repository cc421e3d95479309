//go:build !unix

package agentctl

import "os"

// sizeChanges returns a channel that never says anything: this operating system has no signal for it.
func sizeChanges() (changed <-chan os.Signal, stop func()) { return nil, func() {} }
