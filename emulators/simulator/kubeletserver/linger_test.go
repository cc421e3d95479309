package kubeletserver

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestLingering_LetsClientsSendTheRest closes connections with input that was not read, while another goroutine reads
// or not.
func TestLingering_LetsClientsSendTheRest(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"read": true, "not read": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			server, client := connected(ctx, t)
			send := func(text string) {
				if _, err := io.WriteString(client, text); err != nil {
					t.Fatalf("the client cannot send its input: %v", err)
				}
			}
			send("first")
			ended := make(chan struct{})
			if reads {
				first := make([]byte, len("first"))
				if _, err := io.ReadFull(server, first); err != nil {
					t.Fatal(err)
				}
				go func() {
					defer close(ended)
					if n, err := server.Read(first); err == nil {
						t.Errorf("a closed connection gives %q", first[:n])
					}
				}()
			} else {
				close(ended)
			}
			if _, err := io.WriteString(server, "output"); err != nil {
				t.Fatal(err)
			}
			if err := server.Close(); err != nil {
				t.Fatal(err)
			}
			<-ended
			for range 100 {
				send(strings.Repeat("x", 1<<15))
			}
			if got, err := io.ReadAll(client); err != nil || string(got) != "output" {
				t.Errorf("the client got %q, %v, want the output", got, err)
			}
		})
	}
}

// connected returns the two ends of a connection, with the one of a server that lingers until ctx ends.
func connected(ctx context.Context, t *testing.T) (server, client net.Conn) {
	t.Helper()
	plain, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close() //nolint:errcheck // it accepts no more
	client, err = new(net.Dialer).DialContext(ctx, "tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err = lingering{plain, ctx}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return server, client
}
