package function_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/shared/function"
)

// twoFormats is an output that is streamed in one of two formats.
type twoFormats struct{ release <-chan struct{} }

// Reply implements function.Reply.
func (f twoFormats) Reply(http.Header) any {
	write := func(text string) func(io.Writer) error {
		return func(w io.Writer) error {
			if err := function.Flush(w); err != nil { // sends the header
				return err
			}
			<-f.release
			if _, err := io.WriteString(w, text+"\n"); err != nil {
				return err
			}
			if err := function.Flush(w); err != nil {
				return err
			}
			<-f.release
			return nil
		}
	}
	return function.Formats{
		{ContentType: "application/x-ndjson", Stream: write("lines")},
		{ContentType: "text/event-stream", Stream: write("events")},
	}
}

func TestFormats_SendsThePreferredOneWhenItIsFlushed(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"": "lines", "*/*": "lines", "application/x-ndjson": "lines", "text/event-stream": "events", "text/*": "events",
		"image/png": "lines", "application/x-ndjson;q=0.5, text/event-stream": "events",
		"application/x-ndjson, text/event-stream;q=0.5": "lines",
	} {
		release := make(chan struct{})
		answer := func(context.Context, function.Empty) (twoFormats, error) { return twoFormats{release}, nil }
		server := serveTCP(t, servePublic(http.MethodGet, function.Handle(answer)))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/test", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		res, err := server.Client().Do(req) // returns with the header, before the first line
		if err != nil {
			t.Fatal(err)
		}
		release <- struct{}{}
		line, err := bufio.NewReader(res.Body).ReadString('\n') // before the end of the body
		if err != nil || line != want+"\n" {
			t.Errorf("Accept %q: got %q, %v, want %q", accept, line, err, want)
		}
		checkHeader(t, res.Header, "Vary", "Accept")
		release <- struct{}{}
		_ = res.Body.Close()
		cancel()
		server.Close()
	}
}
