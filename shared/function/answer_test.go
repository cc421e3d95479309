package function_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
)

// firstByte reports whether something was done when the answer began.
type firstByte struct {
	http.ResponseWriter
	done  <-chan struct{}
	begun bool
	early bool
}

func (f *firstByte) begin() {
	select {
	case <-f.done:
	default:
		f.early = f.early || !f.begun
	}
	f.begun = true
}

// WriteHeader implements http.ResponseWriter.
func (f *firstByte) WriteHeader(status int) {
	f.begin()
	f.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (f *firstByte) Write(b []byte) (int, error) {
	f.begin()
	return f.ResponseWriter.Write(b)
}

// TestHandler_BeginsNoAnswerBeforeWhatTheCallHasBegun holds the answers of routes and workers, whatever they are.
func TestHandler_BeginsNoAnswerBeforeWhatTheCallHasBegun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() error{
		"success": func() error { return nil },
		"error":   func() error { return errors.New("refused") },
		"panic":   func() error { panic("defect") },
	} {
		for kind, handler := range map[string]func(do func(context.Context) error) http.Handler{
			"route": func(do func(context.Context) error) http.Handler {
				return function.Route{
					Name: "Do", Method: http.MethodPost, Path: "/", Access: function.Public, Status: http.StatusOK,
					Handle: function.Handle(func(ctx context.Context, _ function.Empty) (map[string]string, error) {
						return map[string]string{"a": "b"}, do(ctx)
					}),
				}.Handler(function.Guard{})
			},
			"worker": func(do func(context.Context) error) http.Handler {
				return function.Worker{
					Name: "Do", Handle: func(ctx context.Context, _ function.Message) error { return do(ctx) },
				}.Handler(fakePushVerifier{})
			},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				done := make(chan struct{})
				w := &firstByte{ResponseWriter: httptest.NewRecorder(), done: done}
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/",
					strings.NewReader(`{"message": {"messageId": "1"}}`))
				req.Header.Set("Authorization", "Bearer token")
				if kind == "route" {
					req.Body = http.NoBody
				}
				handler(func(ctx context.Context) error {
					call.From(ctx).Answer.WaitFor(done)
					time.AfterFunc(20*time.Millisecond, func() { close(done) })
					return end()
				}).ServeHTTP(w, req)
				if !w.begun || w.early {
					t.Errorf("the answer has begun: %t, too early: %t; want true, false", w.begun, w.early)
				}
			})
		}
	}
}
