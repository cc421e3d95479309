package bench

import (
	"context"
	"path"
	"sync"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
)

// Tally counts billed operations.
type Tally struct {
	// Calls counts calls of Firestore, and Listens those of them that listen. Reads, Writes and Deletes count billed
	// documents.
	Calls, Listens, Reads, Writes, Deletes int64
	// Messages counts published messages.
	Messages int64
	// MonitoringCalls counts requests to Cloud Monitoring, and Series the time series in their responses.
	MonitoringCalls, Series int64
	// Requests counts calls of functions.
	Requests int64
}

// times multiplies a tally.
func (t Tally) times(n int64) Tally {
	return Tally{
		Calls: t.Calls * n, Listens: t.Listens * n, Reads: t.Reads * n, Writes: t.Writes * n, Deletes: t.Deletes * n,
		Messages: t.Messages * n, MonitoringCalls: t.MonitoringCalls * n, Series: t.Series * n,
		Requests: t.Requests * n,
	}
}

// plus adds two tallies.
func (t Tally) plus(u Tally) Tally {
	return Tally{
		Calls: t.Calls + u.Calls, Listens: t.Listens + u.Listens, Reads: t.Reads + u.Reads,
		Writes: t.Writes + u.Writes, Deletes: t.Deletes + u.Deletes, Messages: t.Messages + u.Messages,
		MonitoringCalls: t.MonitoringCalls + u.MonitoringCalls, Series: t.Series + u.Series,
		Requests: t.Requests + u.Requests,
	}
}

// counter adds up a tally. It may be used from any goroutine.
type counter struct {
	mu    sync.Mutex
	tally Tally
}

func (c *counter) add(t Tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally = c.tally.plus(t)
}

// drain returns the tally since the last call.
func (c *counter) drain() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tally
	c.tally = Tally{}
	return t
}

// dialOptions count the calls and documents of a Firestore connection as Firestore bills them: a read for every
// document in a response, even if it does not exist, and for a query without results; a write or delete for every write
// of a commit.
func (c *counter) dialOptions() []grpc.DialOption {
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		t := Tally{Calls: 1}
		if commit, ok := req.(*firestorepb.CommitRequest); ok {
			for _, w := range commit.GetWrites() {
				if w.GetDelete() != "" {
					t.Deletes++
				} else {
					t.Writes++
				}
			}
		}
		c.add(t)
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		t := Tally{Calls: 1}
		switch path.Base(method) {
		case "RunQuery":
			t.Reads = 1
		case "Listen":
			t.Listens = 1
		}
		c.add(t)
		s, err := open(ctx, desc, cc, method, opts...)
		return &countedStream{ClientStream: s, counter: c}, err
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

// countedStream counts the documents in a stream of responses. The call has counted a query's first one.
type countedStream struct {
	grpc.ClientStream
	counter *counter
	found   int
}

// RecvMsg implements grpc.ClientStream.
func (a *countedStream) RecvMsg(m any) error {
	err := a.ClientStream.RecvMsg(m)
	if err != nil {
		return err
	}
	switch answer := m.(type) {
	case *firestorepb.BatchGetDocumentsResponse:
		if answer.GetResult() != nil {
			a.counter.add(Tally{Reads: 1})
		}
	case *firestorepb.RunQueryResponse:
		if answer.GetDocument() != nil {
			if a.found++; a.found > 1 {
				a.counter.add(Tally{Reads: 1})
			}
		}
	case *firestorepb.ListenResponse:
		if answer.GetDocumentChange() != nil {
			a.counter.add(Tally{Reads: 1})
		}
	}
	return nil
}
