package firestore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/gcloud"
)

// emulatorHost is the emulator that all tests share; each has a project of its own.
var emulatorHost string

func TestMain(m *testing.M) {
	const variable = "FIRESTORE_EMULATOR_HOST"
	attach := os.Getenv(variable)
	_ = os.Unsetenv(variable) // the tests name the host themselves, as a process with two databases does
	os.Exit(gcloud.RunTests(attach,
		func(c gcloud.Choice) (*firestoreemu.Emulator, error) {
			return firestoreemu.Start(context.Background(),
				firestoreemu.Options{Choice: c, Attach: attach, Indexes: indexesJSON})
		},
		func(e *firestoreemu.Emulator) int {
			emulatorHost = e.Host
			return m.Run()
		}) + leaks())
}

func leaks() int {
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// open opens a database of the test's own, or that of project.
func open(t *testing.T, project string, o Options) *Client {
	t.Helper()
	if o.ProjectID = project; project == "" {
		o.ProjectID = "test-" + uuid.NewString()
	}
	o.EmulatorHost = emulatorHost
	o.DialOptions = append(o.DialOptions, indexed(t)...)
	c, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// calls counts the calls that a client sends.
type calls struct {
	mu   sync.Mutex
	sent []string
}

func (c *calls) observe(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, method[strings.LastIndex(method, "/")+1:])
}

// of returns the calls that f sent.
func (c *calls) of(f func()) []string {
	c.mu.Lock()
	c.sent = nil
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}
