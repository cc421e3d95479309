package load

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

// trickleEvery is the pause between two bytes of a slow request.
const trickleEvery = 2 * time.Second

// trickle sends the beginning of a request, and then one byte after the other until the server answers or closes the
// connection, or ctx ends. It returns what happened.
func (a *attacker) trickle(ctx context.Context, address, head string) string {
	conn, err := dialer(a.from).DialContext(ctx, "tcp", address)
	if err != nil {
		return "no connection"
	}
	ended := make(chan string, 1)
	go func() {
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			ended <- "closed"
			return
		}
		_ = res.Body.Close() // only the status counts
		ended <- strconv.Itoa(res.StatusCode)
	}()
	end := send(ctx, conn, head, ended)
	_ = conn.Close()
	if end == "" {
		<-ended // the reader ends with the connection
		end = "open at the end"
	}
	return end
}

// send writes until the connection ends, and returns how it ended, or "" if ctx ends first.
func send(ctx context.Context, conn net.Conn, head string, ended <-chan string) string {
	tick := time.NewTicker(trickleEvery)
	defer tick.Stop()
	for text := head; ; text = "x" {
		if _, err := conn.Write([]byte(text)); err != nil {
			return <-ended
		}
		select {
		case end := <-ended:
			return end
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
	}
}
