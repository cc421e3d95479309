//go:build unix

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrUnsupported is wrapped by errors that say what this system lacks to run a node.
var ErrUnsupported = errors.New("a real node cannot run here")

// CheckUser returns an error that wraps ErrUnsupported unless this is Linux and the user is root. It does not look for
// more; Supported does.
func CheckUser() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: it needs Linux, and this is %s", ErrUnsupported, runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it needs root, for control groups, namespaces and network interfaces", ErrUnsupported)
	}
	return nil
}

// Supported returns an error that wraps ErrUnsupported if this system cannot run a node. It tries what a node does,
// with the node's programs, which it builds if they are missing, and reports that to progress.
func Supported(ctx context.Context, progress io.Writer) error {
	if err := CheckUser(); err != nil {
		return err
	}
	programs, err := Build(ctx, progress)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it has a small file
	file, err := Options{Dir: dir}.write(programs)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(programs, "node"), "check", "-config", file).CombinedOutput()
	if err != nil {
		reason := strings.TrimPrefix(strings.TrimSpace(string(out)), "node: ")
		return fmt.Errorf("%w: %s", ErrUnsupported, reason)
	}
	return nil
}
