//go:build unix

package pubsubemu

import (
	"context"
	"fmt"
	"sync"
	"time"

	pubsubapi "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	retryWait      = 250 * time.Millisecond
	reportTimeout  = 10 * time.Second
	maxReportBatch = 1000
)

// subscriber is the part of a Pub/Sub client that a puller uses.
type subscriber interface {
	Pull(context.Context, *pubsubpb.PullRequest, ...gax.CallOption) (*pubsubpb.PullResponse, error)
	Acknowledge(context.Context, *pubsubpb.AcknowledgeRequest, ...gax.CallOption) error
	ModifyAckDeadline(context.Context, *pubsubpb.ModifyAckDeadlineRequest, ...gax.CallOption) error
}

var _ subscriber = (*pubsubapi.SubscriptionAdminClient)(nil)

// puller pulls one subscription and passes every message to handle, concurrently. It requests only as many messages as
// its window has places. The emulator's streaming pull ignores the client's limit, so leases would expire while
// messages wait for a place.
type puller struct {
	client       subscriber
	subscription string
	lease        time.Duration // of a message that is pushed
	window       *window
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
	outcomes := make(chan outcome, p.window.limit)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		p.reportOutcomes(context.WithoutCancel(ctx), outcomes)
	}()
	var handlers sync.WaitGroup
	err := p.pull(ctx, func(message *pubsubpb.ReceivedMessage) {
		handlers.Go(func() {
			p.hold(ctx, message)
			done := p.handle(message)
			outcomes <- outcome{ackID: message.AckId, done: done}
			p.window.finish(done)
		})
	})
	handlers.Wait()
	close(outcomes)
	<-reported
	return err
}

// hold keeps a message back while its subscription is paused, and then renews its lease.
func (p *puller) hold(ctx context.Context, message *pubsubpb.ReceivedMessage) {
	if !p.window.awaitResumption(ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	_ = p.client.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: p.subscription, AckIds: []string{message.AckId},
		AckDeadlineSeconds: int32(p.lease / time.Second),
	})
}

func (p *puller) pull(ctx context.Context, take func(*pubsubpb.ReceivedMessage)) error {
	for {
		free := p.window.acquire(ctx)
		if free == 0 {
			return nil // ctx has ended
		}
		// The call waits for a message, and returns none after a while.
		response, err := p.client.Pull(ctx,
			&pubsubpb.PullRequest{Subscription: p.subscription, MaxMessages: int32(free)})
		messages := response.GetReceivedMessages()
		p.window.giveBack(free - len(messages))
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
