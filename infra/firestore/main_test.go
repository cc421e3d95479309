package firestore

import (
	"context"
	stdflag "flag"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/shared/testtier"
)

// emulatorHost is the address of the emulator that all tests share. Each test has its own project.
var emulatorHost string

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the tests leave much garbage and little else
	const variable = "FIRESTORE_EMULATOR_HOST"
	attach := os.Getenv(variable)
	_ = os.Unsetenv(variable) // tests pass the host to Open, as a process with two databases does
	testtier.SilenceLogs()
	if testing.Short() {
		_ = stdflag.Set("test.parallel", "8") // these tests mostly wait for back-off
	}
	os.Exit(gcloudtest.Run(attach,
		func(c gcloud.Choice) (*firestoreemu.Emulator, error) {
			return firestoreemu.Start(context.Background(),
				firestoreemu.Options{Choice: c, Attach: attach, Indexes: indexesJSON})
		},
		func(e *firestoreemu.Emulator) int {
			emulatorHost = e.Host
			return m.Run()
		}) + gcloudtest.CheckGoroutines())
}

// open opens the database of a project, or of a new project if project is empty.
func open(t *testing.T, project string, o Options) *Client {
	t.Helper()
	if o.ProjectID = project; project == "" {
		o.ProjectID = "test-" + uuid.NewString()
	}
	o.EmulatorHost = emulatorHost
	o.DialOptions = append(o.DialOptions, checkIndexes(t)...)
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

// openAt is open with a clock that shows now.
func openAt(t *testing.T, project string, now time.Time) *Client {
	t.Helper()
	return open(t, project, Options{Now: func() time.Time { return now }})
}

// callRecorder records the calls that a client sends.
type callRecorder struct {
	mu   sync.Mutex
	sent []string
}

// observe is for Options.Observe.
func (r *callRecorder) observe(method string) {
	name := method[strings.LastIndex(method, "/")+1:]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, name)
}

// during returns the calls that f sends, such as "read commit".
func (r *callRecorder) during(f func()) string {
	r.mu.Lock()
	r.sent = nil
	r.mu.Unlock()
	f()
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.NewReplacer("BatchGetDocuments", "read", "RunQuery", "query", "Commit", "commit").
		Replace(strings.Join(r.sent, " "))
}

// callStep is an operation, and the calls that it must send.
type callStep struct {
	name string
	do   func()
	want string
}

// wantCalls runs the steps in their order.
func (r *callRecorder) wantCalls(t *testing.T, steps []callStep) {
	t.Helper()
	for _, step := range steps {
		if got := r.during(step.do); got != step.want {
			t.Errorf("%s: calls %q, want %q", step.name, got, step.want)
		}
	}
}

// errorOf drops the result of a call that also returns an error.
func errorOf[T any](_ T, err error) error { return err }

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
