//go:build unix

// Package sdk runs the emulators that Google ships with its command line tools.
//
// It knows where the tools are installed, how their Java programs are started without their shell wrappers (which
// would orphan them), and when they answer. It does not know what they emulate.
package gcloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/emulators/process"
)

const (
	// portAttempts is how often another port is tried when somebody took the free one first.
	portAttempts = 3
	startTimeout = 90 * time.Second
)

// errPortTaken means that another process got the port between finding it and using it.
var errPortTaken = errors.New("the port was taken by another process")

// Emulator describes one Java emulator of the Google Cloud SDK.
type Emulator struct {
	// Name is the name of its log file and stands for it in errors, such as "firestore".
	Name string
	// Jar is the jar's path below the SDK's directory; it may hold a * for the version.
	Jar string
	// Component and Package name it to `gcloud components install` and `apt-get install`.
	Component, Package string
	// Args are Java's arguments, given the jar's path.
	Args func(jar string) []string
	// Banner is what its log says once it listens.
	Banner func(port int) string
}

// Server is a running emulator, or one that somebody else runs.
type Server struct {
	// Address is its host:port.
	Address string
	child   *process.Process
	scratch string // a directory to remove, or nothing
}

// Start starts the emulator on a free port of 127.0.0.1 and waits, at most 90 s, until it answers. Its log goes to dir,
// or to a temporary directory that Close removes when dir is empty. The error says what to install when something is
// missing.
func Start(ctx context.Context, emulator Emulator, dir string) (*Server, error) {
	java, jar, err := machine().find(ctx, emulator)
	if err != nil {
		return nil, err
	}
	return start(ctx, emulator, java, emulator.Args(jar), dir)
}

func start(ctx context.Context, emulator Emulator, java string, args []string, dir string) (server *Server, err error) {
	server = &Server{}
	if dir == "" {
		if dir, err = os.MkdirTemp("", emulator.Name+"-emulator-"); err != nil {
			return nil, fmt.Errorf("make a directory for the %s emulator's log: %w", emulator.Name, err)
		}
		server.scratch = dir
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for range portAttempts {
		if err = server.launch(ctx, emulator, java, args, dir); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		_ = server.removeScratch()
		return nil, explain(err)
	}
	return server, nil
}

// Attach answers a server that somebody else runs at address (host:port), if it answers: an official emulator, or an
// embedded part, which speaks nothing but gRPC. Close leaves it alone.
func Attach(ctx context.Context, name, address string) (*Server, error) {
	if err := answers(ctx, address); err != nil && !speaks(ctx, address) {
		return nil, fmt.Errorf("attach to the %s emulator at %s: %w; start it, or do without the address to have one started", name, address, err)
	}
	return &Server{Address: address}, nil
}

// Done is closed when the emulator's process has ended; it is nil, and so never ready, when attached.
func (s *Server) Done() <-chan struct{} {
	if s.child == nil {
		return nil
	}
	return s.child.Done()
}

// Close ends the emulator and waits until it is gone. The error tells of one that had ended by itself.
func (s *Server) Close() error {
	if s.child == nil {
		return nil
	}
	return errors.Join(s.child.Close(), s.removeScratch())
}

func (s *Server) removeScratch() error {
	if s.scratch == "" {
		return nil
	}
	return os.RemoveAll(s.scratch)
}

func (s *Server) launch(ctx context.Context, emulator Emulator, java string, args []string, dir string) error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	s.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	log := filepath.Join(dir, emulator.Name+".log")
	s.child, err = process.Start(ctx, process.Options{
		Name: emulator.Name + " emulator", Path: java, LogFile: log,
		Args:  append(slices.Clip(args), "--host=127.0.0.1", "--port="+strconv.Itoa(port)),
		Ready: func(ctx context.Context) error { return ready(ctx, log, emulator.Banner(port), s.Address) },
	})
	if err != nil && portTaken(log) {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// ready asks the log first: only it proves that it is this child, and no other process, that answers on the port.
// The Pub/Sub emulator goes on running without a port, so the log is also the only one to tell.
func ready(ctx context.Context, log, banner, address string) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return fmt.Errorf("read its log: %w", err)
	}
	if portTaken(log) {
		return fmt.Errorf("%w: %w", process.ErrGiveUp, errPortTaken)
	}
	if !strings.Contains(string(text), banner) {
		return errors.New("it has not said yet that it listens")
	}
	return answers(ctx, address)
}

func portTaken(log string) bool {
	text, err := os.ReadFile(log)
	return err == nil && strings.Contains(string(text), "java.net.BindException")
}

// answers checks that an emulator serves HTTP at address: both say "Ok" at their root.
func answers(ctx context.Context, address string) error {
	return get(ctx, address, &http.Transport{DisableKeepAlives: true})
}

// speaks checks that a gRPC server is at address: it answers a plain request with an error of its own.
func speaks(ctx context.Context, address string) bool {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	var refused statusError
	return errors.As(get(ctx, address, transport), &refused)
}

// statusError is an HTTP status that is not 200.
type statusError int

// Error implements error.
func (s statusError) Error() string { return fmt.Sprintf("it answers HTTP status %d", int(s)) }

func get(ctx context.Context, address string, transport *http.Transport) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: transport, Timeout: 5 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return statusError(response.StatusCode)
	}
	return nil
}
