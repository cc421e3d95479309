package tracing

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/trace/apiv2/tracepb"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// fakeCloudTrace stores the spans it receives.
type fakeCloudTrace struct {
	tracepb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*tracepb.Span
}

func (s *fakeCloudTrace) BatchWriteSpans(_ context.Context, r *tracepb.BatchWriteSpansRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans = append(s.spans, r.Spans...)
	return &emptypb.Empty{}, nil
}

func (s *fakeCloudTrace) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spans)
}

// startTracing starts a fake Cloud Trace and tracing that sends to it.
func startTracing(t *testing.T, ratio float64) (s *fakeCloudTrace, stop func() error) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = &fakeCloudTrace{}
	g := grpc.NewServer()
	tracepb.RegisterTraceServiceServer(g, s)
	go g.Serve(l) //nolint:errcheck // it ends with Stop
	t.Cleanup(g.Stop)
	stop, err = Start(t.Context(), Options{ProjectID: "p", Ratio: ratio, Client: []option.ClientOption{
		option.WithEndpoint(l.Addr().String()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s, stop
}

type acceptAnyPush struct{}

func (acceptAnyPush) Verify(context.Context, string) error { return nil }

// The trace includes the message that the call publishes and the worker's outside call. Tests that start tracing are
// not parallel, because a process has one tracer provider.
func TestStart_OneTraceFollowsACallToItsWorker(t *testing.T) { //nolint:paralleltest // see above
	s, stop := startTracing(t, 1)
	var carried map[string]string
	route := function.Route{
		Name: "CreateThing", Method: http.MethodPost, Path: "/things", Access: function.Public, Status: http.StatusOK,
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (function.None, error) {
			carried = function.TraceAttributes(ctx)
			return function.None{}, nil
		}),
	}.Handler(function.Guard{})
	worker := function.Worker{Name: "DoThing", Handle: func(ctx context.Context, _ function.Message) error {
		_, span := otel.Tracer("test").Start(ctx, "outside call")
		span.End()
		return fault.New(fault.Unavailable, "later", "Later.")
	}}.Handler(acceptAnyPush{})

	const caller = "0af7651916cd43dd8448eb211c80319c"
	req := httptest.NewRequest(http.MethodPost, "/things?token=canary", strings.NewReader(`{"secret": "canary"}`))
	req.Header.Set("Traceparent", "00-"+caller+"-b7ad6b7169203331-00")
	req.Header.Set("Tracestate", "canary="+strings.Repeat("v", 256)) // of the caller's own systems
	req.Header.Set("Content-Type", "application/json")
	route.ServeHTTP(httptest.NewRecorder(), req)
	if len(carried) != 1 || carried["traceparent"] == "" {
		t.Errorf("the message has the attributes %v, want the traceparent only", carried)
	}
	body, err := json.Marshal(map[string]any{"message": map[string]any{
		"data": []byte("canary"), "attributes": carried,
		"messageId": "7",
	}})
	if err != nil {
		t.Fatal(err)
	}
	push := httptest.NewRequest(http.MethodPost, "/workers/DoThing", strings.NewReader(string(body)))
	push.Header.Set("Authorization", "Bearer canary")
	push.Header.Set("X-Cloud-Trace-Context", "11111111111111111111111111111111/1;o=1") // the push's own
	worker.ServeHTTP(httptest.NewRecorder(), push)
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, span := range s.spans {
		id := strings.Split(span.Name, "/")[3]
		got = append(got, span.DisplayName.Value+" "+id)
		if strings.Contains(span.String(), "canary") {
			t.Errorf("the span %s contains data of a caller: %s", span.DisplayName.Value, span)
		}
	}
	slices.Sort(got)
	want := []string{
		"CreateThing " + caller, "DoThing " + "11111111111111111111111111111111", "DoThing " + caller,
		"outside call " + caller,
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("spans =\n%v, want\n%v", got, want)
	}
}

// Every process keeps the same traces, whether or not the caller sets the sampled flag.
func TestStart_SamplesByTraceIDAlone(t *testing.T) { //nolint:paralleltest // see above
	s, stop := startTracing(t, 0.5)
	h := function.Route{
		Name: "Get", Method: http.MethodGet, Path: "/", Access: function.Public, Status: http.StatusOK,
		Handle: function.Handle(func(context.Context, function.Empty) (function.None, error) {
			return function.None{}, nil
		}),
	}.Handler(function.Guard{})
	for _, id := range []string{"0000000000000000ffffffffffffffff", "00000000000000000000000000000001"} {
		for _, flag := range []string{"00", "01"} {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.Header.Set("Traceparent", "00-"+id+"-b7ad6b7169203331-"+flag)
			h.ServeHTTP(httptest.NewRecorder(), req)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(s.spans) != 2 {
		t.Fatalf("kept %d spans, want the two of one trace: %v", len(s.spans), s.spans)
	}
	for _, span := range s.spans {
		if !strings.Contains(span.Name, "00000000000000000000000000000001") {
			t.Errorf("kept span %s, want only spans of trace 00000000000000000000000000000001", span.Name)
		}
	}
}

// A process has no CPU between requests, so nothing may be left to send after an answer.
func TestStart_SendsTheSpansOfARequestBeforeItsAnswerEnds(t *testing.T) { //nolint:paralleltest // see above
	s, stop := startTracing(t, 1)
	defer stop() //nolint:errcheck // the other tests check it
	h := function.Route{
		Name: "Get", Method: http.MethodGet, Path: "/", Access: function.Public, Status: http.StatusOK,
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (function.None, error) {
			_, span := otel.Tracer("test").Start(ctx, "outside call")
			span.End()
			if got := s.count(); got != 0 {
				t.Errorf("%d spans were sent in the middle of the request, want none: each is a call", got)
			}
			return function.None{}, nil
		}),
	}.Handler(function.Guard{})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	if got := s.count(); got != 2 {
		t.Errorf("%d spans were sent when the request ended, want 2", got)
	}
}

// hangingExporter sends no spans until hang is closed.
type hangingExporter struct{ hang chan struct{} }

func (e hangingExporter) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { <-e.hang; return nil }

func (hangingExporter) Shutdown(context.Context) error { return nil }

// An outage of Cloud Trace delays a traced request by flushTimeout and fails none.
func TestStart_AnswersWhileCloudTraceHangs(t *testing.T) { //nolint:paralleltest // see above
	synctest.Test(t, func(t *testing.T) {
		e := hangingExporter{make(chan struct{})}
		stop := installProvider(e, 1)
		h := function.Route{
			Name: "Get", Method: http.MethodGet, Path: "/", Access: function.Public, Status: http.StatusOK,
			Handle: function.Handle(func(context.Context, function.Empty) (function.None, error) {
				return function.None{}, nil
			}),
		}.Handler(function.Guard{})
		began, answer := time.Now(), httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
		if took := time.Since(began); answer.Code != http.StatusOK || took != flushTimeout {
			t.Errorf("answered %d after %s, want 200 after %s", answer.Code, took, flushTimeout)
		}
		close(e.hang)
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestStart_RefusesInvalidRatios(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{-1, 0, 1.5} {
		if _, err := Start(t.Context(), Options{ProjectID: "p", Ratio: ratio}); err == nil ||
			!strings.Contains(err.Error(), "TRACE_RATIO") {
			t.Errorf("Start with ratio %v returned %v, want an error that names TRACE_RATIO", ratio, err)
		}
	}
}
