//go:build unix

package pubsub_test

import (
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/uuid"

	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/infra/pubsub"
)

// Nudges of webhooks have their own topic, so that slow receivers don't delay agents.
func TestPublisher_DeliversNudgesOfWebhooksToTheirTopic(t *testing.T) {
	t.Parallel()
	project := "p-" + uuid.NewString()
	client, err := pubsubemu.Client(t.Context(), host, project)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	at, from := "projects/"+project+"/topics/webhook-nudges", "projects/"+project+"/subscriptions/nudges"
	if _, err := client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: at}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SubscriptionAdminClient.CreateSubscription(t.Context(),
		&pubsubpb.Subscription{Name: from, Topic: at}); err != nil {
		t.Fatal(err)
	}
	p, err := pubsub.Open(t.Context(), pubsub.Options{
		ProjectID: project, Topic: topic, WebhookTopic: "webhook-nudges", EmulatorHost: host,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	id := uuid.NewString()
	if err := p.NudgeWebhook(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	pulled, err := client.SubscriptionAdminClient.Pull(t.Context(),
		&pubsubpb.PullRequest{Subscription: from, MaxMessages: 10})
	if err != nil {
		t.Fatal(err)
	}
	messages := pulled.GetReceivedMessages()
	if len(messages) != 1 || string(messages[0].GetMessage().GetData()) != `{"webhook_id":"`+id+`"}` {
		t.Errorf("messages = %v, want one with the webhook's id", messages)
	}
	if openPublisher(t, project, host).NudgeWebhook(t.Context(), id) == nil {
		t.Error("a publisher without the topic of webhooks published a nudge of one")
	}
}
