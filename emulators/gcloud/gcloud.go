//go:build unix

// Package gcloud runs the emulators that Google ships with its command line tools.
//
// It finds the installed tools, starts their Java programs without the shell wrappers (which would orphan them), and
// waits until they answer. It does not know what they emulate.
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
	// portAttempts is how many ports Start tries if other processes take them first.
	portAttempts = 3
	startTimeout = 5 * time.Minute
)

// errPortTaken means that another process took the port before the emulator listened on it.
var errPortTaken = errors.New("the port was taken by another process")

// Emulator describes one Java emulator of the Google Cloud SDK.
type Emulator struct {
	// Name names its log file, and names it in errors, such as "firestore".
	Name string
	// Jar is the path of its jar within the SDK. A * stands for the version.
	Jar string
	// Component and Package are its names for `gcloud components install` and `apt-get install`.
	Component, Package string
	// Args returns Java's arguments for the path of the jar.
	Args func(jar string) []string
	// Banner returns the line of its log that says that it listens.
	Banner func(port int) string
}

// Server is a running emulator, started by this process or by another.
type Server struct {
	// Address is its host:port.
	Address string
	child   *process.Process
	scratch string // a directory for Close to remove, or ""
}

// Start starts the emulator on a free port of 127.0.0.1 and waits until it answers, at most 90 s. The log goes to dir
// or, if dir is empty, to a temporary directory that Close removes. If a program is missing, the error says what to
// install.
func Start(ctx context.Context, emulator Emulator, dir string) (*Server, error) {
	java, jar, err := thisMachine().find(ctx, emulator)
	if err != nil {
		return nil, err
	}
	return start(ctx, emulator, java, emulator.Args(jar), dir)
}

func start(ctx context.Context, emulator Emulator, java string, args []string, dir string) (server *Server, err error) {
	server = &Server{}
	if dir == "" {
		if dir, err = os.MkdirTemp("", emulator.Name+"-emulator-"); err != nil {
			return nil, fmt.Errorf("create a directory for the log of the %s emulator: %w", emulator.Name, err)
		}
		server.scratch = dir
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for range portAttempts {
		if err = server.startOnce(ctx, emulator, java, args, dir); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		_ = server.removeScratch()
		return nil, explainJavaError(err)
	}
	return server, nil
}

// Attach connects to a server that runs at address (host:port): an official emulator, or an embedded one, which speaks
// only gRPC. Close does not end it.
func Attach(ctx context.Context, name, address string) (*Server, error) {
	if err := checkHTTP(ctx, address); err != nil && !speaksGRPC(ctx, address) {
		return nil, fmt.Errorf("attach to the %s emulator at %s: %w; start it, or leave the address out to start one "+
			"automatically", name, address, err)
	}
	return &Server{Address: address}, nil
}

// Done is closed when the emulator's process has exited. It is nil for an attached server.
func (s *Server) Done() <-chan struct{} {
	if s.child == nil {
		return nil
	}
	return s.child.Done()
}

// Close ends the emulator and waits until it is gone. It returns an error if the emulator had exited before.
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

func (s *Server) startOnce(ctx context.Context, emulator Emulator, java string, args []string, dir string) error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	s.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	log := filepath.Join(dir, emulator.Name+".log")
	s.child, err = process.Start(ctx, process.Options{
		Name: emulator.Name + " emulator", Path: java, LogFile: log,
		Args:  append(slices.Clip(args), "--host=127.0.0.1", "--port="+strconv.Itoa(port)),
		Ready: func(ctx context.Context) error { return checkReady(ctx, log, emulator.Banner(port), s.Address) },
	})
	if err != nil && portTaken(log) {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// checkReady reads the log first: only the log proves that this child, and not another process, answers on the port. It
// is also the only sign of a taken port for the Pub/Sub emulator, which keeps running without one.
func checkReady(ctx context.Context, log, banner, address string) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return fmt.Errorf("read its log: %w", err)
	}
	if portTaken(log) {
		return fmt.Errorf("%w: %w", process.ErrGiveUp, errPortTaken)
	}
	if !strings.Contains(string(text), banner) {
		return errors.New("its log does not say yet that it listens")
	}
	return checkHTTP(ctx, address)
}

func portTaken(log string) bool {
	text, err := os.ReadFile(log)
	return err == nil && strings.Contains(string(text), "java.net.BindException")
}

// checkHTTP checks that an official emulator serves HTTP at address: its root answers 200.
func checkHTTP(ctx context.Context, address string) error {
	return get(ctx, address, &http.Transport{DisableKeepAlives: true})
}

// speaksGRPC reports whether a gRPC server is at address: it answers a plain HTTP/2 request with an error status.
func speaksGRPC(ctx context.Context, address string) bool {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	var refused statusError
	return errors.As(get(ctx, address, transport), &refused)
}

// statusError is an HTTP status other than 200.
type statusError int

// Error implements error.
func (s statusError) Error() string { return fmt.Sprintf("it answers with HTTP status %d", int(s)) }

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
