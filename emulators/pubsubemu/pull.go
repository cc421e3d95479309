//go:build unix

package pubsubemu

import (
	"context"
	"fmt"
	"sync"
	"time"

	pubsubapi "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	retryWait     = 250 * time.Millisecond
	settleTimeout = 10 * time.Second
	settleBatch   = 1000
)

// puller pulls one subscription and gives every message to handle, several at a time. It asks for as many messages as
// there are free slots: the emulator's streaming pull sends all it has, whatever the client's limit, and leases would
// end while messages wait their turn.
type puller struct {
	client       *pubsubapi.SubscriptionAdminClient
	subscription string
	slots        chan struct{} // one token for each message in hand; its capacity is the concurrency
	// handle says whether the message is done. It has a deadline of its own.
	handle func(*pubsubpb.ReceivedMessage) bool
}

// verdict is what became of a message.
type verdict struct {
	ackID string
	done  bool
}

// run pulls until ctx ends, and returns when every message in hand is handled and answered. The error is one that
// pulling again can't mend, such as that the subscription is gone.
func (p *puller) run(ctx context.Context) error {
	verdicts := make(chan verdict, cap(p.slots))
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		p.settle(context.WithoutCancel(ctx), verdicts)
	}()
	var handlers sync.WaitGroup
	err := p.pull(ctx, func(message *pubsubpb.ReceivedMessage) {
		handlers.Go(func() {
			verdicts <- verdict{ackID: message.AckId, done: p.handle(message)}
			<-p.slots
		})
	})
	handlers.Wait()
	close(verdicts)
	<-settled
	return err
}

func (p *puller) pull(ctx context.Context, take func(*pubsubpb.ReceivedMessage)) error {
	for {
		free := p.acquire(ctx)
		if free == 0 {
			return nil // ctx has ended
		}
		// Waits until there is a message, and answers nothing after a while without one.
		response, err := p.client.Pull(ctx,
			&pubsubpb.PullRequest{Subscription: p.subscription, MaxMessages: int32(free)})
		messages := response.GetReceivedMessages()
		for range free - len(messages) {
			<-p.slots
		}
		for _, message := range messages {
			take(message)
		}
		if err == nil {
			continue
		}
		if !passing(err) {
			return fmt.Errorf("pull %s: %w", p.subscription, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryWait):
		}
	}
}

// acquire waits for a free slot, takes all that are free, and answers how many; 0 when ctx has ended.
func (p *puller) acquire(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for taken := 1; ; taken++ {
		select {
		case p.slots <- struct{}{}:
		default:
			return taken
		}
	}
}

// settle tells the emulator what became of the messages, as many at once as there are. An answer that does not arrive
// is as good as none: the message comes again, as it may in Cloud Pub/Sub.
func (p *puller) settle(ctx context.Context, verdicts <-chan verdict) {
	for first := range verdicts {
		var done, again []string
		for v, more := first, true; more; {
			if v.done {
				done = append(done, v.ackID)
			} else {
				again = append(again, v.ackID)
			}
			if len(done)+len(again) == settleBatch {
				break
			}
			select {
			case v, more = <-verdicts:
			default:
				more = false
			}
		}
		p.send(ctx, done, again)
	}
}

func (p *puller) send(ctx context.Context, done, again []string) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if len(done) > 0 {
		_ = p.client.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: p.subscription, AckIds: done})
	}
	if len(again) > 0 {
		_ = p.client.ModifyAckDeadline(ctx,
			&pubsubpb.ModifyAckDeadlineRequest{Subscription: p.subscription, AckIds: again})
	}
}

// passing errors are worth another try: the emulator is busy, or starts again.
func passing(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.Aborted, codes.Canceled, codes.DeadlineExceeded,
		codes.ResourceExhausted, codes.Unknown:
		return true
	default:
		return false
	}
}
