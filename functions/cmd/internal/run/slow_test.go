//go:build unix

package run

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowClient is a client that sends its header, and then a byte in each interval.
type slowClient struct {
	header string
	// answer begins the answer; empty if the connection ends without one.
	answer string
	// most bounds the time until the answer or the end of the connection.
	most time.Duration
}

const slowInterval = 500 * time.Millisecond

// attack connects, and returns how long the process took to answer or to end the connection.
func (c slowClient) attack(addr string) (time.Duration, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	defer conn.Close() //nolint:errcheck // the test is over
	if err := conn.SetReadDeadline(began.Add(patience)); err != nil {
		return 0, err
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
	if !strings.HasPrefix(line, c.answer) || (err == nil) != (c.answer != "") {
		return 0, fmt.Errorf("answer %q, %w; want %q", line, err, c.answer)
	}
	return time.Since(began), nil
}

// slowClients are clients of slowService.
func slowClients() map[string]slowClient {
	post := func(path string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n"
	}
	return map[string]slowClient{
		"slow body, not needed": {header: post("/quick"), answer: "HTTP/1.1 200", most: 3 * time.Second},
		"slow body":             {header: post("/body"), answer: "HTTP/1.1 408", most: 9 * time.Second},
		"slow header":           {header: "GET /quick HTTP/1.1\r\nHost: h\r\nX: ", most: 14 * time.Second},
	}
}

// TestMain_AnswersWithoutTheBody: the process serves with the limits of function.NewServer.
func TestMain_AnswersWithoutTheBody(t *testing.T) {
	t.Parallel()
	c := slowClients()["slow body, not needed"]
	took, err := c.attack(start(t).addr)
	if err != nil {
		t.Fatal(err)
	}
	if took > c.most {
		t.Errorf("the answer took %s, want at most %s", took, c.most)
	}
}

// TestMain_ServesDuringAttacks: each kind of slow client connects 300 times concurrently. The process ends them all in
// time, and answers other clients in between.
func TestMain_ServesDuringAttacks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 10 seconds")
	}
	const connections = 300
	p := start(t)
	var attacks sync.WaitGroup
	for name, c := range slowClients() {
		for range connections {
			attacks.Go(func() {
				switch took, err := c.attack(p.addr); {
				case err != nil:
					t.Errorf("%s: %v", name, err)
				case took > c.most:
					t.Errorf("%s: the connection was open for %s, want at most %s", name, took, c.most)
				}
			})
		}
	}
	ended := make(chan struct{})
	go func() { attacks.Wait(); close(ended) }()
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for served := 0; ; served++ {
		select {
		case <-ended:
			if served < 100 {
				t.Errorf("%d requests were served during the attacks, want at least 100", served)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
		res, err := client.Post("http://"+p.addr+"/body", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatalf("request %d: %v", served, err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("request %d: status = %d, want 200", served, res.StatusCode)
		}
	}
}
