package intake

import (
	"bytes"
	"fmt"
	"net/http"
)

const (
	// MaxHeader bounds the bytes of a request's header, as Node does.
	MaxHeader = 16 << 10
	// MaxLines bounds the lines of a header. Each costs much more memory than its bytes: a header of 16 KiB in lines of
	// five bytes takes 400 KiB. Envoy, and with it Google's load balancer, admits 100.
	MaxLines = 128
	// LineCost is about what net/http takes for a line in addition to its bytes. Where an answer makes a map grow, it
	// is more.
	LineCost = 192
)

// ErrHeader means that a header exceeds its limits.
var ErrHeader = fmt.Errorf("the header has more than %d KiB or %d lines", MaxHeader>>10, MaxLines)

// Cost returns about how much memory a header takes.
func Cost(h http.Header) (cost int64) {
	for name, values := range h {
		for _, v := range values {
			cost += int64(len(name) + len(v) + LineCost)
		}
	}
	return cost
}

// head measures a header while it arrives.
type head struct {
	bytes, lines int
	// first has the bytes from start.
	first [len(preface)]byte
	start int
	// begun means that the line that arrives has a character.
	begun bool
	ended bool
}

// preface is how a connection of HTTP/2 begins. It ends like a header.
const preface = "PRI * HTTP/2.0"

// add measures more bytes, of which some may follow the header. It fails if the header exceeds its limits.
func (h *head) add(p []byte) error {
	copy(h.first[min(h.bytes-h.start, len(h.first)):], p)
	for rest := p; ; {
		i := bytes.IndexByte(rest, '\n')
		line := rest[:max(i, 0)]
		if i < 0 {
			line = rest
		}
		if len(line) > 1 || len(line) == 1 && line[0] != '\r' {
			h.begun = true
		}
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		if !h.begun && h.lines > 0 {
			h.ended = true
			p = p[:len(p)-len(rest)]
			break
		}
		h.begun = false
		h.lines++
	}
	h.bytes += len(p)
	if h.bytes > MaxHeader || h.lines > MaxLines+1 { // and the line of the request or the status
		return ErrHeader
	}
	return nil
}

func (h *head) cost() int64 { return int64(h.bytes + h.lines*LineCost) }

// isHTTP2 reports whether the header was the beginning of a connection of HTTP/2.
func (h *head) isHTTP2() bool { return h.lines == 1 && string(h.first[:]) == preface }

// skipInterim goes on measuring after the header of an answer that another one follows, such as 100 Continue.
func (h *head) skipInterim() {
	status := string(h.first[len("HTTP/1.1 "):][:3])
	if h.ended && status[0] == '1' && status != "101" {
		*h = head{bytes: h.bytes, lines: h.lines, start: h.bytes}
	}
}
