package firestore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

func TestValidID_RefusesWhatFirestoreReserves(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"a": true, "_": true, "__": true, "___": true, "__a": true, "a__": true, "...": true,
		".": false, "..": false, "____": false, "__a__": false, "": false, "a/b": false,
	} {
		if got := validID(id); got != want {
			t.Errorf("validID(%q) = %t, want %t", id, got, want)
		}
	}
}

func TestOpen_NeedsAProject(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.Context(), Options{EmulatorHost: emulatorHost}); err == nil {
		t.Error("opened a database without a project, want an error")
	}
}

func TestOpen_SeparatesDatabases(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	other := open(t, c.project(), Options{DatabaseID: "eu"})
	must(t, c.setPlan(t.Context(), "org", plan.Pro))
	if _, err := other.Directory().Organization(t.Context(), "org"); !fault.Is(err, fault.NotFound) {
		t.Errorf("organization of another database: error %v, want NotFound", err)
	}
}

// TestOpen_UsesTheEmulatorVariable is not parallel, because it changes the environment.
func TestOpen_UsesTheEmulatorVariable(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", emulatorHost)
	c, err := Open(t.Context(), Options{ProjectID: "test-" + agenttest.ID()})
	must(t, err)
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	c.addRecord(t, "o", 1)
	w := c.watchRecords("o")
	awaitRecord(t, w)
	w.stop()
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestStores_AreUnavailableWhileTheDatabaseIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testStoresWhileTheDatabaseIsDown)
}

func testStoresWhileTheDatabaseIsDown(t *testing.T) {
	t.Helper()
	c, err := Open(t.Context(), Options{ProjectID: "p", EmulatorHost: "never-dialed", DialOptions: refuseCalls()})
	must(t, err)
	defer func() { _ = c.Close() }()
	ctx := call.As(t.Context(), identity.Caller{ID: "u", OrganizationID: "o", Role: identity.RoleAdmin})
	for name, call := range map[string]func() error{
		"ping":         func() error { return c.Ping(ctx) },
		"get an agent": func() error { _, err := c.Agents(nil).Get(ctx, agenttest.ID()); return err },
		"list agents": func() error {
			_, err := c.Agents(nil).List(ctx, agent.Filter{}, page.Request{})
			return err
		},
		"create an agent": func() error {
			_, err := c.Agents(nil).Create(ctx, agenttest.Draft(plan.Hobby))
			return err
		},
		"find a key": func() error { _, _, err := c.Keys().Find(ctx, "h", document.Ref{}); return err },
		"update an agent as a worker": func() error {
			_, err := c.WorkerStore().Update(ctx, agent.Agent{ID: agenttest.ID(), Version: "abc"},
				func(a *agent.Agent) { a.Attempts++ })
			return err
		},
	} {
		err := call()
		if !fault.Is(err, fault.Unavailable) || fault.Code(err) != "store_unavailable" {
			t.Errorf("%s: error %v, want Unavailable with code store_unavailable", name, err)
		}
	}
	c.Keys().Touch(ctx, newKey()) // returns no error, and Close waits for it
}

// refuseCalls makes every call fail as without a connection.
func refuseCalls() []grpc.DialOption {
	refused := status.Error(codes.Unavailable, "connection refused")
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker,
			...grpc.CallOption,
		) error {
			return refused
		}),
		grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer,
			...grpc.CallOption,
		) (grpc.ClientStream, error) {
			return nil, refused
		}),
	}
}

func TestFaultOf(t *testing.T) {
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
		if !fault.Is(got, row.want) {
			t.Errorf("faultOf(%v) = %v, want kind %d", row.err, got, row.want)
		}
		if !errors.Is(got, row.err) {
			t.Errorf("faultOf(%v) = %v, which does not wrap the error", row.err, got)
		}
	}
}

// TestRetryUntilDecided_RepeatsWhatMayHelp fails every commit with a code. One that may have been carried out is sent
// three times, a lost race until it is won, and a refused one once.
func TestRetryUntilDecided_RepeatsWhatMayHelp(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	const races = 8
	tries := map[codes.Code]int{
		codes.Unavailable: 3, codes.DeadlineExceeded: 3, codes.ResourceExhausted: 3, codes.Internal: 3,
		codes.Unknown: 3, codes.Canceled: 3,
		codes.FailedPrecondition: races, codes.NotFound: races, codes.AlreadyExists: races, codes.Aborted: races,
	}
	for code := codes.OK + 1; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			sent := 0
			err := c.retryUntilDecided(t.Context(), func(_ context.Context, again bool) error {
				if sent++; again != (sent > 1) {
					t.Errorf("again = %t in try %d", again, sent)
				}
				if sent == races {
					return nil
				}
				return commitError(status.Error(code, ""))
			})
			if want := max(1, tries[code]); sent != want || (err == nil) != (want == races) {
				t.Errorf("sent %d times, %v; want %d", sent, err, want)
			}
		})
	}
}

func TestVersion_RoundTrips(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_123_456, time.UTC)
	got, err := updateTimeOf(versionOf(at))
	must(t, err)
	if !got.Equal(at) {
		t.Errorf("updateTimeOf(versionOf(%v)) = %v", at, got)
	}
}

func TestUpdateTimeOf_RefusesOtherText(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "-1", "0", "!", strings.Repeat("z", 30)} {
		if at, err := updateTimeOf(bad); err == nil {
			t.Errorf("updateTimeOf(%q) = %v, want an error", bad, at)
		}
	}
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	want := position{time.Date(2026, 2, 3, 4, 5, 6, 789_000, time.UTC), "an id with spaces"}
	good := want.cursor("agents")
	if got, ok := parseCursor("agents", good); !ok || got != want {
		t.Errorf("position %v (valid %t), want %v", got, ok, want)
	}
	if _, ok := parseCursor("api_keys", good); ok {
		t.Error("accepted a cursor of another list")
	}
	for _, bad := range []position{
		{createdAt: want.createdAt, tieBreaker: "a/b"},
		{createdAt: want.createdAt, tieBreaker: ""},
		{createdAt: want.createdAt, tieBreaker: "\xff"},
		{createdAt: time.Unix(-1, 0), tieBreaker: "x"},
	} {
		if got, ok := parseCursor("agents", bad.cursor("agents")); ok {
			t.Errorf("accepted a cursor to %v", got)
		}
	}
	for i := range good {
		if got, ok := parseCursor("agents", good[:i]); ok {
			t.Errorf("accepted a cursor cut to %d characters, for %v", i, got)
		}
	}
}

// TestBackground_SurvivesAPanic: a goroutine that panics would end the process with all requests in flight.
func TestBackground_SurvivesAPanic(t *testing.T) {
	t.Parallel()
	b := newBackground()
	b.run(t.Context(), func(context.Context) { panic("of a call") })
	done := make(chan struct{})
	b.run(t.Context(), func(context.Context) { close(done) })
	b.close()
	<-done
}

func TestRecentClaims_GrantOncePerInterval(t *testing.T) {
	t.Parallel()
	claims, now := newRecentClaims(), time.Unix(1000, 0)
	for _, row := range []struct {
		after time.Duration
		want  bool
	}{
		{after: 0, want: true},
		{after: time.Second, want: false},
		{after: time.Minute, want: true},
	} {
		if got := claims.claim("a", now.Add(row.after), time.Minute); got != row.want {
			t.Errorf("claim after %v = %t, want %t", row.after, got, row.want)
		}
	}
}

func TestRecentClaims_AreBounded(t *testing.T) {
	t.Parallel()
	claims := newRecentClaims()
	for i := range 3 * maxRemembered {
		claims.claim(strconv.Itoa(i), time.Unix(1000, 0), 0)
	}
	if got := len(claims.last); got > maxRemembered {
		t.Errorf("%d ids remembered, want at most %d", got, maxRemembered)
	}
}

func TestBackground_IsBoundedAndOutlivesRequests(t *testing.T) {
	t.Parallel()
	b := newBackground()
	ctx, cancel := context.WithCancel(t.Context())
	release, ended := make(chan struct{}), make(chan error, 2*maxBackground)
	for range 2 * maxBackground {
		b.run(ctx, func(ctx context.Context) {
			<-release
			ended <- ctx.Err()
		})
	}
	cancel()
	close(release)
	b.close()
	close(ended)
	calls := 0
	for err := range ended {
		if calls++; err != nil {
			t.Errorf("a call ended with its request: %v", err)
		}
	}
	if calls != maxBackground {
		t.Errorf("%d calls ran concurrently, want %d", calls, maxBackground)
	}
	b.run(t.Context(), func(context.Context) { t.Error("a call started after close") })
}

func TestNumber_AcceptsWholeNumbersStoredAsDoubles(t *testing.T) {
	t.Parallel()
	var n int64
	must(t, number(&n).decode("n", float64(7)))
	if n != 7 {
		t.Errorf("n = %d, want 7", n)
	}
	if err := number(&n).decode("n", 7.5); err == nil {
		t.Errorf("7.5 was decoded as %d, want an error", n)
	}
}
