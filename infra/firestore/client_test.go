package firestore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.Context(), Options{EmulatorHost: emulatorHost}); err == nil {
		t.Error("a database without a project was opened")
	}
	one, named := open(t, "", Options{}), Options{DatabaseID: "eu"}
	other := open(t, one.project(), named)
	if err := one.setPlan(t.Context(), "org", plan.Pro); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Directory().Organization(t.Context(), "org"); !fault.Is(err, fault.NotFound) {
		t.Errorf("another database of the project: %v, want not found", err)
	}
}

// TestEmulatorVariable is not parallel: it changes the environment.
func TestEmulatorVariable(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", emulatorHost)
	c, err := Open(t.Context(), Options{ProjectID: "test-" + agenttest.ID()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestDown(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	if err := listener.Close(); err != nil { // nobody listens there from now on
		t.Fatal(err)
	}
	c, err := Open(t.Context(), Options{ProjectID: "p", EmulatorHost: host, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx := identity.With(t.Context(), identity.Caller{ID: "u", OrganizationID: "o", Role: identity.RoleAdmin})
	for name, do := range map[string]func() error{
		"ping":   func() error { return c.Ping(ctx) },
		"get":    func() error { _, err := c.Agents(nil).Get(ctx, agenttest.ID()); return err },
		"list":   func() error { _, err := c.Agents(nil).List(ctx, agent.Filter{}, page.Request{}); return err },
		"create": func() error { _, err := c.Agents(nil).Create(ctx, agenttest.Draft(plan.Hobby)); return err },
		"find":   func() error { _, _, err := c.Keys().Find(ctx, "h", document.Ref{}); return err },
		"record": func() error {
			_, err := c.WorkerStore().Update(ctx, agent.Agent{ID: agenttest.ID(), Version: "abc"},
				func(a *agent.Agent) { a.Attempts++ })
			return err
		},
	} {
		err := do()
		if f := fault.From(err); f == nil || f.Kind != fault.Unavailable || f.Code != "store_unavailable" {
			t.Errorf("%s: %v, want store_unavailable", name, err)
		}
	}
	c.Keys().Touch(ctx, testKey()) // fails nobody, and Close waits for it
}

func TestFailure(t *testing.T) {
	t.Parallel()
	known := fault.New(fault.PaymentRequired, "x", "y")
	for _, row := range []struct {
		err  error
		want fault.Kind
	}{
		{err: status.Error(codes.Unavailable, ""), want: fault.Unavailable},
		{err: status.Error(codes.DeadlineExceeded, ""), want: fault.Unavailable},
		{err: status.Error(codes.Aborted, ""), want: fault.Unavailable},
		{err: status.Error(codes.ResourceExhausted, ""), want: fault.Unavailable},
		{err: status.Error(codes.Canceled, ""), want: fault.Unavailable},
		{err: fmt.Errorf("wrapped: %w", status.Error(codes.Unavailable, "")), want: fault.Unavailable},
		{err: context.Canceled, want: fault.Unavailable},
		{err: context.DeadlineExceeded, want: fault.Unavailable},
		{err: status.Error(codes.PermissionDenied, ""), want: fault.Internal},
		{err: status.Error(codes.InvalidArgument, ""), want: fault.Internal},
		{err: errors.New("anything"), want: fault.Internal},
		{err: known, want: fault.PaymentRequired},
	} {
		got := faultOf("read", row.err)
		if !fault.Is(got, row.want) || !errors.Is(got, row.err) {
			t.Errorf("%v became %v, want kind %d around it", row.err, got, row.want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_123_456, time.UTC)
	if got, err := updateTimeOf(versionOf(at)); err != nil || !got.Equal(at) {
		t.Errorf("%v became %v, %v", at, got, err)
	}
	for _, bad := range []string{"", "-1", "0", "!", strings.Repeat("z", 30)} {
		if at, err := updateTimeOf(bad); err == nil {
			t.Errorf("the version %q was written at %v", bad, at)
		}
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	want := position{time.Date(2026, 2, 3, 4, 5, 6, 789_000, time.UTC), "an id with spaces"}
	good := want.cursor("agents")
	if got, ok := parseCursor("agents", good); !ok || got != want {
		t.Errorf("got %v, %t; want %v", got, ok, want)
	}
	if _, ok := parseCursor("api_keys", good); ok {
		t.Error("a cursor of another list was accepted")
	}
	for _, bad := range []position{{createdAt: want.createdAt, tieBreaker: "a/b"}, {createdAt: want.createdAt, tieBreaker: ""},
		{createdAt: want.createdAt, tieBreaker: "\xff"}, {createdAt: time.Unix(-1, 0), tieBreaker: "x"}} {
		if got, ok := parseCursor("agents", bad.cursor("agents")); ok {
			t.Errorf("a cursor to %v was accepted", got)
		}
	}
	for i := range good {
		if got, ok := parseCursor("agents", good[:i]); ok {
			t.Errorf("a cut cursor leads to %v", got)
		}
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	m, now := newRecentClaims(), time.Unix(1000, 0)
	if !m.claim("a", now, time.Minute) || m.claim("a", now.Add(time.Second), time.Minute) ||
		!m.claim("a", now.Add(time.Minute), time.Minute) {
		t.Error("a claim is granted once in the interval")
	}
	for i := range 3 * maxRemembered {
		m.claim(strconv.Itoa(i), now, 0)
	}
	if len(m.last) > maxRemembered {
		t.Errorf("%d ids remembered, want at most %d", len(m.last), maxRemembered)
	}
}

func TestBackground(t *testing.T) {
	t.Parallel()
	b := newBackground()
	ctx, cancel := context.WithCancel(t.Context())
	hold, ran := make(chan struct{}), make(chan error, 2*maxBackground)
	for range 2 * maxBackground {
		b.run(ctx, func(ctx context.Context) {
			<-hold
			ran <- ctx.Err()
		})
	}
	cancel()
	close(hold)
	b.close()
	close(ran)
	n := 0
	for err := range ran {
		if n++; err != nil {
			t.Errorf("a call ended with its request: %v", err)
		}
	}
	if n != maxBackground {
		t.Errorf("%d calls ran at once, want %d", n, maxBackground)
	}
	b.run(t.Context(), func(context.Context) { t.Error("a call began after the end") })
}
