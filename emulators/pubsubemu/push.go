//go:build unix

package pubsubemu

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// envelope is the body of a push request. Like Cloud Pub/Sub, it has the id and the time under two names each, and
// omits empty fields.
type envelope struct {
	DeliveryAttempt int             `json:"deliveryAttempt,omitempty"`
	Message         envelopeMessage `json:"message"`
	Subscription    string          `json:"subscription"`
}

type envelopeMessage struct {
	Attributes   map[string]string `json:"attributes,omitempty"`
	Data         []byte            `json:"data,omitempty"`
	MessageID    string            `json:"messageId"`
	MessageID2   string            `json:"message_id"`
	OrderingKey  string            `json:"orderingKey,omitempty"`
	PublishTime  string            `json:"publishTime"`
	PublishTime2 string            `json:"publish_time"`
}

// newHTTPClient returns a client that follows no redirects: Pub/Sub treats a redirect as a failed delivery.
func newHTTPClient(concurrency int) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: concurrency, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pusher returns a function that posts one message and returns the outcome.
func (d *Dispatcher) pusher(subscription Subscription) func(context.Context, *pubsubpb.ReceivedMessage) Delivery {
	name := d.subscriptionName(subscription.Name)
	return func(ctx context.Context, received *pubsubpb.ReceivedMessage) Delivery {
		start := time.Now()
		delivery := Delivery{
			Subscription: subscription.Name, MessageID: received.GetMessage().GetMessageId(),
			Attempt: int(received.DeliveryAttempt),
		}
		body, err := json.Marshal(wrap(name, received))
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, subscription.deadline())
			defer cancel()
			delivery.Status, err = d.post(ctx, subscription, body)
		}
		delivery.Err, delivery.Took = err, time.Since(start)
		delivery.Acked = err == nil && acknowledges(delivery.Status)
		return delivery
	}
}

func wrap(subscription string, received *pubsubpb.ReceivedMessage) envelope {
	message := received.GetMessage()
	published := message.GetPublishTime().AsTime().Format(time.RFC3339Nano)
	return envelope{
		DeliveryAttempt: int(received.DeliveryAttempt), Subscription: subscription,
		Message: envelopeMessage{
			Attributes: message.GetAttributes(), Data: message.GetData(), OrderingKey: message.GetOrderingKey(),
			MessageID: message.GetMessageId(), MessageID2: message.GetMessageId(),
			PublishTime: published, PublishTime2: published,
		},
	}
}

func (d *Dispatcher) post(ctx context.Context, subscription Subscription, body []byte) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, subscription.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "CloudPubSub-Google")
	if d.options.Token != nil {
		audience := subscription.Audience
		if audience == "" {
			audience = subscription.Endpoint
		}
		token, err := d.options.Token(audience)
		if err != nil {
			return 0, fmt.Errorf("mint the push token: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := d.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	// Reading to the end allows the connection to be reused. Pub/Sub ignores the content.
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// acknowledges reports whether Cloud Pub/Sub takes the status as an acknowledgement. Every other status is a failed
// delivery, including redirects and other 2xx.
func acknowledges(code int) bool {
	switch code {
	case http.StatusProcessing, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent:
		return true
	default:
		return false
	}
}
