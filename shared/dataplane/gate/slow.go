package gate

import (
	"errors"
	"os"
	"time"

	"agents.example/controlplane/shared/egress"
)

const (
	// maxSlow bounds the connections by HTTP/2 of which an agent reads nothing for Timeouts.Slow. All requests of such
	// a connection stay in memory, also those that have their whole answer, which no other limit counts.
	maxSlow = 8
	// maxStall is for how long an agent may read too little of such a connection.
	maxStall = time.Minute
)

// errSlow means that there are too many connections of which the agent reads nothing.
var errSlow = errors.New("the agent does not read what is sent to it")

// Write implements net.Conn.
func (r *replay) Write(p []byte) (int, error) {
	if !r.http2.Load() {
		return r.link.Write(p)
	}
	g := r.owner.gate
	_ = r.SetWriteDeadline(time.Now().Add(g.o.Timeouts.Slow))
	n, err := r.link.Write(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	a := r.agent()
	t := g.tenants.of(a.ID)
	defer t.slow.Add(-1)
	if t.slow.Add(1) > maxSlow {
		g.refused(a, r.hostName(), egress.TooMany)
		return n, errors.Join(errSlow, r.Close())
	}
	_ = r.SetWriteDeadline(time.Now().Add(maxStall))
	more, err := r.link.Write(p[n:])
	return n + more, err
}
