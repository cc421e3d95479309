//go:build unix

package pubsubemu

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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
	hold     time.Duration // of a lease; 0 has no end
	mu       sync.Mutex
	messages []*queued
	changed  chan struct{}
}

type queued struct {
	id                         string
	published, ready, finished time.Time
	leasedAt                   time.Time
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
		if m.leased && q.hold > 0 && time.Since(m.leasedAt) > q.hold {
			m.leased = false
		}
		until := time.Until(m.ready)
		switch {
		case m.leased || m.dead || !m.finished.IsZero():
		case until > 0:
			if next == 0 || until < next {
				next = until
			}
		case len(messages) < most:
			m.leased, m.leasedAt = true, time.Now()
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

// TestPuller_LeasesNoMessageThatWaits: more work than fits into a lease is done one request at a time, and no message
// is delivered twice.
func TestPuller_LeasesNoMessageThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const messages, took, lease = 40, 300 * time.Millisecond, 10 * time.Second
		var inFlight atomic.Int32
		q := &queue{hold: lease, changed: make(chan struct{})}
		p := puller{
			client: q, lease: lease, window: newWindow(1, 1, maxPushBackoff),
			handle: func(*pubsubpb.ReceivedMessage) bool {
				if now := inFlight.Add(1); now > 1 {
					t.Errorf("%d requests are in flight, want one at a time", now)
				}
				defer inFlight.Add(-1)
				pass(took)
				return true
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		q.publish(ids(messages)...)
		done := make(chan error, 1)
		go func() { done <- p.run(ctx) }()
		pass(messages * took)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, m := range q.messages {
			if len(m.deliveries) != 1 || m.finished.IsZero() {
				t.Errorf("message %s was delivered %d times, finished %t; want once", m.id, len(m.deliveries),
					!m.finished.IsZero())
			}
		}
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) { wait(context.Background(), d, nil) }
