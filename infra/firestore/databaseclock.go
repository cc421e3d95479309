package firestore

import (
	"context"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
)

// databaseClock is the time of the database, as far as a process knows it. The places of events come from there, so a
// process that compares its own clock with them would skip events where that clock is ahead.
type databaseClock struct {
	last atomic.Pointer[databaseTime]
}

// databaseTime is the time of a read, and the local time at which its answer was received.
type databaseTime struct{ read, received time.Time }

// clockAge bounds the time by which the two clocks can come apart.
const clockAge = time.Minute

// observe takes note of the time of a read that was just answered.
func (d *databaseClock) observe(read time.Time) {
	if last := d.last.Load(); !read.IsZero() && (last == nil || time.Since(last.received) > clockAge) {
		d.last.Store(&databaseTime{read, time.Now()})
	}
}

// observeQueries makes an interceptor that takes note of the times of queries. Google's client does not return that of
// an empty answer.
func (d *databaseClock) observeQueries() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
		method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, cc, method, opts...)
		if err != nil || method != firestorepb.Firestore_RunQuery_FullMethodName {
			return stream, err
		}
		return &timedStream{stream, d}, nil
	})
}

type timedStream struct {
	grpc.ClientStream
	clock *databaseClock
}

// RecvMsg implements grpc.ClientStream.
func (s *timedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*firestorepb.RunQueryResponse); ok && err == nil && r.GetReadTime() != nil {
		s.clock.observe(r.GetReadTime().AsTime())
	}
	return err
}

// now returns a time that the database has reached, about the duration of a call ago; zero if no call of this process
// has told the time.
func (d *databaseClock) now() time.Time {
	last := d.last.Load()
	if last == nil {
		return time.Time{}
	}
	return last.read.Add(time.Since(last.received))
}

// DatabaseNow is the time of the database's clock. It makes a call if no other one has told the time.
func (c *Client) DatabaseNow(ctx context.Context) (time.Time, error) {
	now := c.databaseClock.now()
	if !now.IsZero() {
		return now, nil
	}
	err := c.Ping(ctx)
	return c.databaseClock.now(), err
}
