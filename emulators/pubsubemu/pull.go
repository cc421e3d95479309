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
	retryWait      = 250 * time.Millisecond
	reportTimeout  = 10 * time.Second
	maxReportBatch = 1000
)

// puller pulls one subscription and passes every message to handle, concurrently. It requests only as many messages as
// there are free slots. The emulator's streaming pull ignores the client's limit, so leases would expire while messages
// wait for a slot.
type puller struct {
	client       *pubsubapi.SubscriptionAdminClient
	subscription string
	slots        chan struct{} // one token per message being handled; the capacity is the concurrency
	// handle reports whether the message can be acknowledged. It applies its own deadline.
	handle func(*pubsubpb.ReceivedMessage) bool
}

// outcome is the outcome of a message.
type outcome struct {
	ackID string
	done  bool
}

// run pulls until ctx ends, and returns when all received messages are handled and reported. It returns an error only
// if pulling again cannot succeed, for example because the subscription was deleted.
func (p *puller) run(ctx context.Context) error {
	outcomes := make(chan outcome, cap(p.slots))
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		p.reportOutcomes(context.WithoutCancel(ctx), outcomes)
	}()
	var handlers sync.WaitGroup
	err := p.pull(ctx, func(message *pubsubpb.ReceivedMessage) {
		handlers.Go(func() {
			outcomes <- outcome{ackID: message.AckId, done: p.handle(message)}
			<-p.slots
		})
	})
	handlers.Wait()
	close(outcomes)
	<-reported
	return err
}

func (p *puller) pull(ctx context.Context, take func(*pubsubpb.ReceivedMessage)) error {
	for {
		free := p.acquire(ctx)
		if free == 0 {
			return nil // ctx has ended
		}
		// The call waits for a message, and returns none after a while.
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
		if !isTransient(err) {
			return fmt.Errorf("pull %s: %w", p.subscription, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryWait):
		}
	}
}

// acquire waits for a free slot, takes all free slots, and returns their number; 0 if ctx has ended.
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

// reportOutcomes reports outcomes to the emulator, in batches. A lost report only causes a redelivery, which Cloud
// Pub/Sub permits.
func (p *puller) reportOutcomes(ctx context.Context, outcomes <-chan outcome) {
	for first := range outcomes {
		var done, again []string
		for v, more := first, true; more; {
			if v.done {
				done = append(done, v.ackID)
			} else {
				again = append(again, v.ackID)
			}
			if len(done)+len(again) == maxReportBatch {
				break
			}
			select {
			case v, more = <-outcomes:
			default:
				more = false
			}
		}
		p.reportBatch(ctx, done, again)
	}
}

func (p *puller) reportBatch(ctx context.Context, done, again []string) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if len(done) > 0 {
		_ = p.client.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: p.subscription, AckIds: done})
	}
	if len(again) > 0 {
		_ = p.client.ModifyAckDeadline(ctx,
			&pubsubpb.ModifyAckDeadlineRequest{Subscription: p.subscription, AckIds: again})
	}
}

// isTransient reports whether to retry after an error: the emulator is busy or restarting.
func isTransient(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal, codes.Aborted, codes.Canceled, codes.DeadlineExceeded,
		codes.ResourceExhausted, codes.Unknown:
		return true
	default:
		return false
	}
}
