// Package pubsub asks workers to look at agents, through Google Cloud Pub/Sub. It knows how a nudge is published. It
// does not know who receives it (package function) nor what becomes of a nudge that is lost (the sweep repeats it).
//
// It publishes with the unary call and not with the library's batching publisher: a nudge is one small message that
// somebody waits for, so there is nothing to batch, and the goroutines and timers of batching would only cost a start.
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

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

const (
	// publishTimeout bounds Nudge, repetitions included. Somebody waits for it whose work is committed already.
	publishTimeout = 5 * time.Second
	// firstRepeat and lastRepeat bound the wait before a repetition. A nudge that arrives twice changes nothing.
	firstRepeat = 50 * time.Millisecond
	lastRepeat  = time.Second
)

// Options say where to publish.
type Options struct {
	// ProjectID is the Google Cloud project that owns the topic.
	ProjectID string
	// Topic is the topic's id, without its project.
	Topic string
	// EmulatorHost is the host:port of a Pub/Sub on this machine, spoken to without encryption or credentials. Empty is
	// Google's.
	EmulatorHost string
}

// Publisher implements agent.Nudger.
type Publisher struct {
	client *apiv1.TopicAdminClient
	topic  string // projects/ID/topics/ID

	mu     sync.Mutex
	closed bool
	// flying counts the nudges that are being published.
	flying sync.WaitGroup
}

// Open makes the client. Nothing is sent yet, and the topic is not looked for.
func Open(ctx context.Context, o Options) (*Publisher, error) {
	if o.ProjectID == "" || o.Topic == "" {
		return nil, errors.New("pubsub: the project and the topic must be configured")
	}
	var options []option.ClientOption
	if o.EmulatorHost != "" {
		options = append(options, option.WithEndpoint(o.EmulatorHost), option.WithoutAuthentication(),
			option.WithTelemetryDisabled(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	client, err := apiv1.NewTopicAdminClient(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open the pubsub client: %w", err)
	}
	client.CallOptions = &apiv1.TopicAdminCallOptions{Publish: []gax.CallOption{gax.WithRetry(repeat)}}
	return &Publisher{client: client, topic: "projects/" + o.ProjectID + "/topics/" + o.Topic}, nil
}

// repeat has a nudge published again after errors that pass.
func repeat() gax.Retryer {
	passing := []codes.Code{codes.Unavailable, codes.Aborted, codes.Internal, codes.Unknown, codes.ResourceExhausted}
	return gax.OnCodes(passing, gax.Backoff{Initial: firstRepeat, Max: lastRepeat, Multiplier: 2})
}

// Nudge implements agent.Nudger: it returns when Pub/Sub has the message, after 5 s at most. Errors: Unavailable
// (queue_unavailable).
func (p *Publisher) Nudge(ctx context.Context, agentID string) error {
	if agentID == "" {
		return errors.New("a nudge without an agent's id")
	}
	data, err := json.Marshal(function.AgentNudge{AgentID: agentID})
	if err != nil {
		return fmt.Errorf("encode a nudge: %w", err)
	}
	if !p.begin() {
		return unavailable(errors.New("the publisher is closed"))
	}
	defer p.flying.Done()
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_, err = p.client.Publish(ctx, &pubsubpb.PublishRequest{Topic: p.topic, Messages: []*pubsubpb.PubsubMessage{{
		Data: data, Attributes: function.Carried(ctx),
	}}})
	if err != nil {
		return unavailable(fmt.Errorf("publish a nudge to %s: %w", p.topic, err))
	}
	return nil
}

// begin counts a nudge in, unless the publisher is closed.
func (p *Publisher) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.flying.Add(1)
	return true
}

// Close waits for the nudges that are being published, which takes 5 s at most, and ends the connection. It is safe to
// call again.
func (p *Publisher) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	p.flying.Wait()
	if again {
		return nil
	}
	return p.client.Close()
}

func unavailable(cause error) error {
	return fault.New(fault.Unavailable, "queue_unavailable",
		"The work can't be queued at the moment. Try again.").WithCause(cause)
}
