//go:build unix

// Package firebaseemu runs the Firebase Authentication emulator, which Google ships in the npm package firebase-tools.
//
// It installs a pinned version of that package into the user's cache, once, and starts only this emulator: the command
// line of the tools would access the network and start more. It does not create users; Firebase's libraries and API do.
package firebaseemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/emulators/process"
)

// HostVariable is the environment variable with which Firebase's libraries find an emulator.
const HostVariable = "FIREBASE_AUTH_EMULATOR_HOST"

const (
	toolsPackage = "firebase-tools"
	toolsVersion = "13.35.1"
	startTimeout = 5 * time.Minute
	portAttempts = 3
)

// ErrNotInstalled means that the emulator is unavailable on this machine: Node.js is missing, or the npm registry is
// unreachable.
var ErrNotInstalled = errors.New("the Firebase Authentication emulator is not installed")

// script starts the emulator of the package on the given port.
const script = `
const { AuthEmulator } = require("firebase-tools/lib/emulator/auth");
const port = Number(process.argv[1]);
const emulator = new AuthEmulator({ host: "127.0.0.1", port, projectId: "demo", singleProjectMode: 0 });
emulator.start().then(() => console.log("started"), (err) => { console.error(err); process.exit(1); });
`

// Emulator is a running emulator, started by this process or attached.
type Emulator struct {
	// Host is its host:port.
	Host string

	child   *process.Process
	scratch string
}

// Start installs the emulator if necessary, which takes minutes, and starts it on a free port. If attach is set, it
// uses the running emulator at that address instead. The log goes to a temporary directory that Close removes. Errors:
// ErrNotInstalled.
func Start(ctx context.Context, attach string) (e *Emulator, err error) {
	if attach != "" {
		if err := answers(ctx, attach); err != nil {
			return nil, fmt.Errorf("attach to the Firebase Authentication emulator at %s: %w", attach, err)
		}
		return &Emulator{Host: attach}, nil
	}
	dir, err := install(ctx)
	if err != nil {
		return nil, err
	}
	e = &Emulator{}
	if e.scratch, err = os.MkdirTemp("", "firebase-auth-"); err != nil {
		return nil, fmt.Errorf("create a directory for the emulator's log: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for range portAttempts {
		if err = e.launch(ctx, dir); err == nil || !strings.Contains(err.Error(), "EADDRINUSE") {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(e.scratch))
	}
	return e, nil
}

func (e *Emulator) launch(ctx context.Context, dir string) error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	e.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	log := filepath.Join(e.scratch, "firebase-auth.log")
	e.child, err = process.Start(ctx, process.Options{
		Name: "the Firebase Authentication emulator", Path: "node", Args: []string{"-e", script, strconv.Itoa(port)},
		Dir: dir, LogFile: log,
		Ready: func(ctx context.Context) error {
			// Only the log proves that this child, and not another process, serves the port.
			if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "started") {
				return errors.New("the emulator has not logged that it listens")
			}
			return answers(ctx, e.Host)
		},
	})
	return err
}

// Close stops the emulator and waits until it has ended. An attached emulator is left running.
func (e *Emulator) Close() error {
	if e.child == nil {
		return nil
	}
	return errors.Join(e.child.Close(), os.RemoveAll(e.scratch))
}

func answers(ctx context.Context, host string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("the emulator answers HTTP status %d", res.StatusCode)
	}
	return nil
}

// install returns the directory in the user's cache with the package. It installs the package once, without running its
// scripts, and moves it into place in one step, so that concurrent installations do not conflict.
func install(ctx context.Context) (dir string, err error) {
	if _, err := exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("%w: %w; install Node.js 20 or newer", ErrNotInstalled, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory for %s: %w; set HOME or XDG_CACHE_HOME", toolsPackage, err)
	}
	dir = filepath.Join(cache, "agents-controlplane", toolsPackage+"-"+toolsVersion)
	if _, err := os.Stat(filepath.Join(dir, "node_modules", toolsPackage)); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("create a cache directory for %s: %w", toolsPackage, err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), toolsPackage+"-")
	if err != nil {
		return "", fmt.Errorf("create a cache directory for %s: %w", toolsPackage, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", fresh, "--ignore-scripts", "--no-audit", "--no-fund",
		toolsPackage+"@"+toolsVersion)
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: npm install %s@%s: %w\n%s", ErrNotInstalled, toolsPackage, toolsVersion, err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(filepath.Join(dir, "node_modules", toolsPackage)); there != nil {
			return "", fmt.Errorf("move %s into place: %w", toolsPackage, err)
		}
	}
	return dir, nil
}
