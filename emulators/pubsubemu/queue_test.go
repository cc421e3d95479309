//go:build unix

package pubsubemu

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
)

// queue is one subscription in virtual time, with the retry policy of the deployed ones. It delivers a message again
// after its own back-off, and gives it up after its last attempt.
type queue struct {
	retry    retryPolicy
	mu       sync.Mutex
	messages []*queued
	changed  chan struct{}
}

type queued struct {
	id                         string
	published, ready, finished time.Time
	leased, dead               bool
	deliveries                 []time.Time
}

// retryPolicy is what Terraform sets on every subscription.
type retryPolicy struct {
	minimum, maximum time.Duration
	attempts         int
}

// deployedRetries reads the retry policy from Terraform.
func deployedRetries(t *testing.T) retryPolicy {
	t.Helper()
	b, err := os.ReadFile("../../terraform/topics.tf")
	if err != nil {
		t.Fatal(err)
	}
	number := func(pattern string) int {
		found := regexp.MustCompile(pattern).FindSubmatch(b)
		if found == nil {
			t.Fatalf("topics.tf has nothing like %s", pattern)
		}
		n, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return retryPolicy{
		minimum:  time.Duration(number(`minimum_backoff = "(\d+)s"`)) * time.Second,
		maximum:  time.Duration(number(`maximum_backoff = "(\d+)s"`)) * time.Second,
		attempts: number(`max_delivery_attempts = (\d+)`),
	}
}

func (q *queue) publish(ids ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		now := time.Now()
		q.messages = append(q.messages, &queued{id: id, published: now, ready: now})
	}
	q.wake()
}

// wake lets waiting pulls look again. The caller holds the lock.
func (q *queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Pull implements subscriber.
func (q *queue) Pull(ctx context.Context, r *pubsubpb.PullRequest, _ ...gax.CallOption) (*pubsubpb.PullResponse,
	error,
) {
	for {
		messages, next, changed := q.lease(int(r.GetMaxMessages()))
		if len(messages) > 0 {
			return &pubsubpb.PullResponse{ReceivedMessages: messages}, nil
		}
		if !wait(ctx, next, changed) {
			return nil, ctx.Err()
		}
	}
}

// lease takes messages that are ready. next is the time until another one is ready; 0 if none will be.
func (q *queue) lease(most int) (messages []*pubsubpb.ReceivedMessage, next time.Duration, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		until := time.Until(m.ready)
		switch {
		case m.leased || m.dead || !m.finished.IsZero():
		case until > 0:
			if next == 0 || until < next {
				next = until
			}
		case len(messages) < most:
			m.leased = true
			m.deliveries = append(m.deliveries, time.Now())
			messages = append(messages, &pubsubpb.ReceivedMessage{
				AckId: m.id, Message: &pubsubpb.PubsubMessage{MessageId: m.id},
				DeliveryAttempt: int32(len(m.deliveries)),
			})
		}
	}
	return messages, next, q.changed
}

// Acknowledge implements subscriber.
func (q *queue) Acknowledge(_ context.Context, r *pubsubpb.AcknowledgeRequest, _ ...gax.CallOption) error {
	q.each(r.GetAckIds(), func(m *queued) { m.finished = time.Now() })
	return nil
}

// ModifyAckDeadline implements subscriber. Only a deadline of 0 has an effect: it returns messages.
func (q *queue) ModifyAckDeadline(_ context.Context, r *pubsubpb.ModifyAckDeadlineRequest, _ ...gax.CallOption) error {
	if r.GetAckDeadlineSeconds() > 0 {
		return nil
	}
	q.each(r.GetAckIds(), func(m *queued) {
		m.leased, m.dead = false, len(m.deliveries) >= q.retry.attempts
		m.ready = time.Now().Add(min(q.retry.minimum<<(len(m.deliveries)-1), q.retry.maximum))
	})
	return nil
}

func (q *queue) each(ids []string, do func(*queued)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if slices.Contains(ids, m.id) {
			do(m)
		}
	}
	q.wake()
}

// pushed is the endpoint of a subscription: it answers after a while, and acknowledges or not.
type pushed func(id string) (took time.Duration, acked bool)

// play runs a dispatcher's puller on a queue in virtual time, until script returns. It returns the queue and the times
// at which pushes began.
func play(t *testing.T, endpoint pushed, script func(*queue)) (q *queue, began []time.Duration) {
	t.Helper()
	q = &queue{retry: deployedRetries(t), changed: make(chan struct{})}
	var mu sync.Mutex
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := puller{
			client: q, window: newWindow(defaultInitialWindow, defaultConcurrency, maxPushBackoff),
			handle: func(m *pubsubpb.ReceivedMessage) bool {
				mu.Lock()
				began = append(began, time.Since(start))
				mu.Unlock()
				took, acked := endpoint(m.GetMessage().GetMessageId())
				pass(took)
				return acked
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := p.run(ctx); err != nil {
				t.Error(err)
			}
		})
		script(q)
		stop()
		running.Wait()
	})
	return q, began
}

// pass lets virtual time pass.
func pass(d time.Duration) { wait(context.Background(), d, nil) }
