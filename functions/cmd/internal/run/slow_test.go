//go:build unix

package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	// brief means that the answer comes immediately.
	brief bool
}

const slowInterval = 500 * time.Millisecond

// attack connects, calls began, and returns when the process has answered or ended the connection.
func (c slowClient) attack(addr string, began func()) error {
	conn, err := net.Dial("tcp", addr)
	began()
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
		"slow body, not needed": {header: post("/quick"), answer: "HTTP/1.1 200", brief: true},
		"slow body":             {header: post("/body"), answer: "HTTP/1.1 408"},
		"slow header":           {header: "GET /quick HTTP/1.1\r\nHost: h\r\nX: "},
	}
}

// TestMain_AnswersWithoutTheBody: the process serves with the limits of function.NewServer.
func TestMain_AnswersWithoutTheBody(t *testing.T) {
	t.Parallel()
	if err := slowClients()["slow body, not needed"].attack(start(t).addr, func() {}); err != nil {
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
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var connecting, attacks sync.WaitGroup
	var ended atomic.Int32 // how many attacks have ended
	for name, c := range slowClients() {
		connecting.Add(connections)
		for range connections {
			attacks.Go(func() {
				for began := connecting.Done; ; began = func() {} {
					if err := c.attack(p.addr, began); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					if c.brief || ctx.Err() != nil {
						return
					}
					ended.Add(1) // and another one takes its place
				}
			})
		}
	}
	connecting.Wait()
	end := time.Now().Add(patience)
	for served, before := 0, ended.Load(); served < 10; served++ {
		if time.Now().After(end) {
			t.Fatal("requests are served only when attacks end, want 10 in a row without an end")
		}
		res, err := p.get(ctx, "/quick")
		if err != nil || res != "quick" {
			t.Fatalf("request %d during the attacks: %q, %v", served, res, err)
		}
		if now := ended.Load(); now != before {
			served, before = -1, now // it may have got the connection of an attack
		}
	}
	stop()
	attacks.Wait()
}
