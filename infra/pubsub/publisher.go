// Package pubsub publishes nudges, which ask a worker to reconcile an agent, through Google Cloud Pub/Sub. It does not
// receive them (package function) and does not repeat lost ones (the sweep does).
//
// It uses the unary Publish call and not the library's batching publisher. A nudge is one small message whose sender
// waits for the answer, so batching would not help, and its goroutines and timers would slow down every start.
package pubsub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"agents.example/controlplane/infra/lazyconn"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webhook"
)

const (
	// publishTimeout bounds Nudge, retries included. The caller, whose work is already committed, waits for it.
	publishTimeout = 5 * time.Second
	// firstRetryDelay and maxRetryDelay bound the wait before a retry. A duplicate nudge has no effect.
	firstRetryDelay = 50 * time.Millisecond
	maxRetryDelay   = time.Second
)

// Options configure where to publish.
type Options struct {
	// ProjectID is the Google Cloud project that owns the topic.
	ProjectID string
	// Topic is the topic's id, without its project.
	Topic string
	// WebhookTopic is the id of the topic of webhooks' nudges. Empty if the process publishes none.
	WebhookTopic string
	// EmulatorHost is the host:port of a local Pub/Sub emulator, called without encryption or credentials. Empty means
	// Google's service.
	EmulatorHost string
}

// Publisher implements agent.Nudger, agent.WakeNudger and webhook.Nudger.
type Publisher struct {
	client *apiv1.TopicAdminClient
	// The names of the topics, as projects/ID/topics/ID.
	topic, webhookTopic string

	mu     sync.Mutex
	closed bool
	// inFlight counts the Nudge calls that have not returned.
	inFlight sync.WaitGroup
}

// Open creates the client. It connects at the first nudge, and does not check that the topic exists.
func Open(ctx context.Context, o Options) (*Publisher, error) {
	if o.ProjectID == "" || o.Topic == "" {
		return nil, errors.New("pubsub: configure the project and the topic")
	}
	var options []option.ClientOption
	if o.EmulatorHost != "" {
		options = append(options, option.WithEndpoint(o.EmulatorHost), option.WithoutAuthentication(),
			option.WithTelemetryDisabled(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	client, err := lazyconn.Open(ctx, apiv1.NewTopicAdminClient, options...)
	if err != nil {
		return nil, fmt.Errorf("open the pubsub client: %w", err)
	}
	return newPublisher(client, o), nil
}

func newPublisher(client *apiv1.TopicAdminClient, o Options) *Publisher {
	client.CallOptions = &apiv1.TopicAdminCallOptions{Publish: []gax.CallOption{gax.WithRetry(newRetryer)}}
	p := &Publisher{client: client, topic: topicName(o.ProjectID, o.Topic)}
	if o.WebhookTopic != "" {
		p.webhookTopic = topicName(o.ProjectID, o.WebhookTopic)
	}
	return p
}

func topicName(projectID, id string) string { return "projects/" + projectID + "/topics/" + id }

var _ webhook.Nudger = (*Publisher)(nil)

// newRetryer returns a retryer for transient errors.
func newRetryer() gax.Retryer {
	transient := []codes.Code{codes.Unavailable, codes.Aborted, codes.Internal, codes.Unknown, codes.ResourceExhausted}
	return gax.OnCodes(transient, gax.Backoff{Initial: firstRetryDelay, Max: maxRetryDelay, Multiplier: 2})
}

// Nudge implements agent.Nudger. It returns when Pub/Sub has stored the message, after at most 5 s. Errors: Unavailable
// (queue_unavailable).
func (p *Publisher) Nudge(ctx context.Context, agentID string) error {
	return p.nudge(ctx, function.AgentNudge{AgentID: agentID})
}

// Wake implements agent.WakeNudger, as Nudge does.
func (p *Publisher) Wake(ctx context.Context, agentID string) error {
	return p.nudge(ctx, function.AgentNudge{AgentID: agentID, Wake: true})
}

func (p *Publisher) nudge(ctx context.Context, n function.AgentNudge) error {
	if n.AgentID == "" {
		return errors.New("pubsub: a nudge needs an agent id")
	}
	return p.publish(ctx, p.topic, n)
}

// NudgeWebhook implements webhook.Nudger, as Nudge does.
func (p *Publisher) NudgeWebhook(ctx context.Context, id string) error {
	if id == "" || p.webhookTopic == "" {
		return errors.New("pubsub: a nudge of a webhook needs an id, and a topic")
	}
	return p.publish(ctx, p.webhookTopic, function.WebhookNudge{WebhookID: id})
}

// ReportEgress publishes what a gate counted to the publisher's topic. Errors: Unavailable (queue_unavailable).
func (p *Publisher) ReportEgress(ctx context.Context, r egress.Reports) error {
	return p.publish(ctx, p.topic, r)
}

func (p *Publisher) publish(ctx context.Context, topic string, nudge any) error {
	data, err := json.Marshal(nudge)
	if err != nil {
		return fmt.Errorf("encode a nudge: %w", err)
	}
	if !p.beginNudge() {
		return unavailable(errors.New("the publisher is closed"))
	}
	defer p.inFlight.Done()
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_, err = p.client.Publish(ctx, &pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{
		Data: data, Attributes: function.TraceAttributes(ctx),
	}}})
	if err != nil {
		return unavailable(fmt.Errorf("publish a nudge to %s: %w", topic, err))
	}
	return nil
}

// beginNudge adds a nudge to inFlight and reports whether the publisher is still open.
func (p *Publisher) beginNudge() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.inFlight.Add(1)
	return true
}

// Close waits for the nudges in flight, which takes at most 5 s, and closes the connection. It is safe to call again.
func (p *Publisher) Close() error {
	p.mu.Lock()
	wasClosed := p.closed
	p.closed = true
	p.mu.Unlock()
	p.inFlight.Wait()
	if wasClosed {
		return nil
	}
	return p.client.Close()
}

func unavailable(cause error) error {
	return fault.New(fault.Unavailable, "queue_unavailable",
		"The work queue is temporarily unavailable. Retry.").WithCause(cause)
}
