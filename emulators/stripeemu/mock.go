//go:build unix

package stripeemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/emulators/process"
)

// Mock is a running stripe-mock, Stripe's own server for its OpenAPI description. It validates every request and
// returns an example response; it stores nothing.
type Mock struct {
	// URL is the base URL for clients of Stripe's API.
	URL string

	child   *process.Process
	scratch string
}

const (
	mockModule  = "emulators/stripeemu/mock"
	mockPackage = "github.com/stripe/stripe-mock"
	mockStart   = 5 * time.Minute
)

// StartMock builds stripe-mock if necessary, which takes seconds, and starts it on a free port. Its log goes to dir, or
// to a temporary directory that Close removes. stripe-mock never outlives this process.
func StartMock(ctx context.Context, dir string) (m *Mock, err error) {
	binary, err := build(ctx)
	if err != nil {
		return nil, err
	}
	m = &Mock{}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "stripe-mock-"); err != nil {
			return nil, fmt.Errorf("create a directory for stripe-mock's log: %w", err)
		}
		m.scratch = dir
	}
	log := filepath.Join(dir, "stripe-mock.log")
	ctx, cancel := context.WithTimeout(ctx, mockStart)
	defer cancel()
	m.child, err = process.Start(ctx, process.Options{
		Name: "stripe-mock", Path: binary, Args: []string{"-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0"},
		LogFile: log,
		Ready: func(context.Context) (err error) {
			m.URL, err = listening(log)
			return err
		},
	})
	if err != nil {
		return nil, errors.Join(err, m.removeScratch())
	}
	return m, nil
}

// Done is closed when stripe-mock has ended for any reason.
func (m *Mock) Done() <-chan struct{} { return m.child.Done() }

// Close stops stripe-mock and waits until it has ended.
func (m *Mock) Close() error { return errors.Join(m.child.Close(), m.removeScratch()) }

func (m *Mock) removeScratch() error {
	if m.scratch == "" {
		return nil
	}
	return os.RemoveAll(m.scratch)
}

// listening returns the address that stripe-mock logged.
func listening(log string) (url string, err error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`HTTP at address: (127\.0\.0\.1:\d+)`).FindSubmatch(text)
	if found == nil {
		return "", errors.New("stripe-mock has not logged its address yet")
	}
	return "http://" + string(found[1]), nil
}

// build compiles stripe-mock from the nested module into the user's cache. It shares the compiled standard library with
// tests, which is most of the work. The binary is moved into place in one step, so concurrent builds do not conflict.
func build(ctx context.Context) (binary string, err error) {
	module, err := findModule()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory for stripe-mock: %w; set HOME or XDG_CACHE_HOME", err)
	}
	sums, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", err
	}
	version := regexp.MustCompile(mockPackage + ` (v\S+)`).FindSubmatch(sums)
	if version == nil {
		return "", fmt.Errorf("%s does not require any version of %s", module, mockPackage)
	}
	binary = filepath.Join(cache, "agents-controlplane",
		fmt.Sprintf("stripe-mock-%s-%s", version[1], runtime.Version()))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(binary), "stripe-mock-")
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(binary), 0o755); err == nil {
			dir, err = os.MkdirTemp(filepath.Dir(binary), "stripe-mock-")
		}
	}
	if err != nil {
		return "", fmt.Errorf("create a cache directory for stripe-mock: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := (gobuild.Build{
		Name: "stripe-mock", Dir: module, Packages: []string{mockPackage}, Target: filepath.Join(dir, "stripe-mock"),
		Flags: gobuild.Flags(), LikeTests: true, Progress: gobuild.NewProgress(io.Discard),
	}).Run(ctx); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(dir, "stripe-mock"), binary); err != nil {
		return "", fmt.Errorf("move stripe-mock into place: %w", err)
	}
	return binary, nil
}

// findModule returns the nested module of the repository around the working directory.
func findModule() (string, error) {
	work, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for dir := work; ; dir = filepath.Dir(dir) {
		module := filepath.Join(dir, filepath.FromSlash(mockModule))
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no parent directory of %s contains %s; run this inside the repository", work,
				mockModule)
		}
	}
}
