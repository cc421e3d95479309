//go:build unix

package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowClient is a client that sends its header, and then a byte in each interval.
type slowClient struct {
	header string
	// answer begins the answer; empty if the connection ends without one.
	answer string
}

const slowInterval = 500 * time.Millisecond

// attack connects, and returns when the process has answered or ended the connection.
func (c slowClient) attack(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the test is over
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		tick := time.NewTicker(slowInterval)
		defer tick.Stop()
		_, err := io.WriteString(conn, c.header)
		for err == nil {
			select {
			case <-tick.C:
				_, err = io.WriteString(conn, "x")
			case <-ended:
				return
			}
		}
	}()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if !strings.HasPrefix(line, c.answer) || (err == nil) != (c.answer != "") ||
		errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("answer %q, %w; want %q", line, err, c.answer)
	}
	return nil
}

// slowClients are clients of slowService. Their bodies and headers take days; package function tests the limits.
func slowClients() map[string]slowClient {
	post := func(path string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n"
	}
	return map[string]slowClient{
		"slow body, not needed": {header: post("/quick"), answer: "HTTP/1.1 200"},
		"slow body":             {header: post("/body"), answer: "HTTP/1.1 408"},
		"slow header":           {header: "GET /quick HTTP/1.1\r\nHost: h\r\nX: "},
	}
}

// TestMain_AnswersWithoutTheBody: the process serves with the limits of function.NewServer.
func TestMain_AnswersWithoutTheBody(t *testing.T) {
	t.Parallel()
	if err := slowClients()["slow body, not needed"].attack(start(t).addr); err != nil {
		t.Error(err)
	}
}

// TestMain_ServesDuringAttacks: each kind of slow client connects 300 times concurrently. The process ends them all,
// and other clients need not wait until it has ended one.
func TestMain_ServesDuringAttacks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 10 seconds")
	}
	const connections = 300
	p := start(t)
	var attacks sync.WaitGroup
	var endedAttacks atomic.Int32
	for name, c := range slowClients() {
		for range connections {
			attacks.Go(func() {
				if err := c.attack(p.addr); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				endedAttacks.Add(1)
			})
		}
	}
	ended := make(chan struct{})
	go func() { attacks.Wait(); close(ended) }()
	var client http.Client
	defer client.CloseIdleConnections()
	undisturbed := 0 // requests during which no attack ended
	for served := 0; ; served++ {
		select {
		case <-ended:
			if undisturbed == 0 {
				t.Errorf("each of %d requests was served only when an attack ended, want them served during attacks",
					served)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
		before := endedAttacks.Load()
		res, err := client.Post("http://"+p.addr+"/body", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatalf("request %d: %v", served, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("request %d: status = %d, want 200", served, res.StatusCode)
		}
		if endedAttacks.Load() == before && before < 3*connections {
			undisturbed++
		}
	}
}
