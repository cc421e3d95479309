package agents_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/nettest"
)

// TestFollowLog_TheGoClientLosesAndRepeatsNoLine follows a log for 25 minutes over connections that break off at random
// places. The answers have a limit of 10 minutes, the container restarts, and the agent gets another pod.
func TestFollowLog_TheGoClientLosesAndRepeatsNoLine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := newLogFixture()
			const lines = 1500
			go func() {
				p := f.cell.Start(f.agent.ID)
				for i := range lines {
					p.Write(time.Now(), fmt.Sprint(i))
					<-time.After(time.Second)
					if i%400 == 399 {
						p.Restart()
					}
				}
				f.cell.Remove(f.agent.ID)
			}()
			synctest.Wait()
			served := []function.Served{f.route.Served(functiontest.NewGuard())}
			cut := &cutting{
				RoundTripper: nettest.Serve(t, function.Mux(served)), random: rand.New(rand.NewPCG(seed, 0)),
			}
			c, err := client.New("http://localhost", client.StaticToken(functiontest.AdminToken(org)),
				client.WithHTTPClient(&http.Client{Transport: cut}))
			must(t, err)
			next := 0
			for line, err := range c.FollowAgentLogs(t.Context(), f.agent.ID, client.GetAgentLogsParams{}) {
				if err != nil {
					t.Fatalf("seed %d: after %d lines and %d answers: %v", seed, next, cut.answers, err)
				}
				if line.Message != fmt.Sprint(next) {
					t.Fatalf("seed %d: line %q, want %d", seed, line.Message, next)
				}
				next++
			}
			if next != lines || cut.answers < 4 {
				t.Errorf("seed %d: %d lines in %d answers, want %d lines in several", seed, next, cut.answers, lines)
			}
		})
	}
}

// cutting breaks answers off at random places.
type cutting struct {
	http.RoundTripper
	random  *rand.Rand
	answers int
}

// RoundTrip implements http.RoundTripper.
func (c *cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.RoundTripper.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusOK {
		c.answers++
		res.Body = &cutBody{ReadCloser: res.Body, left: c.random.IntN(100_000)}
	}
	return res, err
}

// cutBody breaks off after some bytes.
type cutBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
