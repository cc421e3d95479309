//go:build unix

package gcloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test binary stand in for Java: `binary serve COUNTER FAILURE --host=H --port=P` behaves like an
// emulator. FAILURE says at which starts its port is taken: never, once or always; "old" fails as an old Java does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(serve(os.Args[2], os.Args[3], strings.TrimPrefix(os.Args[5], "--port=")))
	}
	goleak.VerifyTestMain(m)
}

func serve(counter, failure, port string) int {
	starts, _ := os.ReadFile(counter)
	if err := os.WriteFile(counter, append(starts, 'x'), 0o600); err != nil {
		return 1
	}
	switch {
	case failure == "always" || failure == "once" && len(starts) == 0:
		fmt.Println("java.net.BindException: Address already in use")
		select {} // as the Pub/Sub emulator does
	case failure == "old":
		fmt.Println("java.lang.UnsupportedClassVersionError: Toy has been compiled by a more recent version")
		return 1
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println("java.net.BindException:", err)
		return 1
	}
	fmt.Println("listening on " + port)
	server := http.Server{ReadHeaderTimeout: time.Second}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Ok\n")) })
	_ = server.Serve(listener)
	return 0
}

func TestStart_TriesOtherPorts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		failure string
		starts  int
		wantErr string
		is      error
	}{
		"first port is free":  {failure: "never", starts: 1},
		"first port is taken": {failure: "once", starts: 2},
		"every port is taken": {
			failure: "always", starts: portAttempts, is: errPortTaken,
			wantErr: "BindException",
		},
		"Java is too old": {failure: "old", starts: 1, wantErr: "install Java 17"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			counter := filepath.Join(dir, "starts")
			emulator := toy()
			emulator.Banner = func(port int) string { return fmt.Sprintf("listening on %d", port) }
			server, err := start(t.Context(), emulator, os.Args[0], []string{"serve", counter, test.failure}, dir)
			if starts, _ := os.ReadFile(counter); len(starts) != test.starts {
				t.Errorf("started %d times, want %d", len(starts), test.starts)
			}
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) || test.is != nil &&
					!errors.Is(err, test.is) {
					t.Errorf("error = %v, want one that is %v and contains %q", err, test.is, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := checkHTTP(t.Context(), server.Address); err != nil {
				t.Error(err)
			}
			if err := server.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			<-server.Done()
			if err := checkHTTP(t.Context(), server.Address); err == nil {
				t.Error("the emulator answers after Close")
			}
		})
	}
}

func TestClose_RemovesTheTemporaryDirectory(t *testing.T) {
	t.Parallel()
	emulator := toy()
	emulator.Banner = func(port int) string { return fmt.Sprintf("listening on %d", port) }
	server, err := start(t.Context(), emulator, os.Args[0],
		[]string{"serve", filepath.Join(t.TempDir(), "starts"), "never"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(server.scratch, "toy.log")); err != nil {
		t.Error(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(server.scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of the temporary directory after Close: %v, want ErrNotExist", err)
	}
}

func TestStart_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	emulator := toy()
	ctx, cancel := context.WithCancel(t.Context())
	checks := 0
	emulator.Banner = func(int) string {
		if checks++; checks == 2 {
			cancel()
		}
		return "never said"
	}
	_, err := start(ctx, emulator, os.Args[0], []string{"serve", filepath.Join(t.TempDir(), "starts"), "never"},
		t.TempDir())
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "does not say yet") {
		t.Errorf("error = %v, want Canceled and the last readiness error", err)
	}
}

func TestAttach_UsesARunningServerAndLeavesItRunning(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	running := http.Server{ReadHeaderTimeout: time.Second}
	running.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Ok\n")) })
	ended := make(chan error)
	go func() { ended <- running.Serve(listener) }()
	address := listener.Addr().String()
	server, err := Attach(t.Context(), "toy", address)
	if err != nil {
		t.Fatal(err)
	}
	if server.Address != address || server.Done() != nil {
		t.Errorf("server = %+v, want address %s and no process", server, address)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := checkHTTP(t.Context(), address); err != nil {
		t.Errorf("the server does not answer after Close: %v", err)
	}
	if err := running.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if _, err := Attach(t.Context(), "toy", address); err == nil ||
		!strings.Contains(err.Error(), "attach to the toy emulator at "+address) {
		t.Errorf("Attach to a closed server: error = %v, want it to name the address", err)
	}
}
