//go:build unix

package pubsub_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
)

// host is the emulator that all tests share. Each test uses a separate project in it. TestMain sets host.
var host string

func TestMain(m *testing.M) {
	// A library of the client starts this goroutine when it is loaded and never stops it.
	worker := goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")
	attach := os.Getenv("PUBSUB_EMULATOR_HOST")
	os.Exit(gcloudtest.Run(attach,
		func(c gcloud.Choice) (*pubsubemu.Emulator, error) {
			return pubsubemu.Start(context.Background(), pubsubemu.Options{Choice: c, Attach: attach})
		},
		func(e *pubsubemu.Emulator) int {
			host = e.Host
			return m.Run()
		}) + gcloudtest.CheckGoroutines(worker))
}

var (
	_ agent.Nudger     = (*pubsub.Publisher)(nil)
	_ agent.WakeNudger = (*pubsub.Publisher)(nil)
)

const topic = "agent-nudges"

func openPublisher(t *testing.T, project, host string) *pubsub.Publisher {
	t.Helper()
	p, err := pubsub.Open(t.Context(), pubsub.Options{ProjectID: project, Topic: topic, EmulatorHost: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestPublisher_DeliversNudges(t *testing.T) {
	t.Parallel()
	project := "p-" + uuid.NewString()
	client, err := pubsubemu.Client(t.Context(), host, project)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	at, from := "projects/"+project+"/topics/"+topic, "projects/"+project+"/subscriptions/nudges"
	if _, err := client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: at}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SubscriptionAdminClient.CreateSubscription(t.Context(),
		&pubsubpb.Subscription{Name: from, Topic: at}); err != nil {
		t.Fatal(err)
	}
	p := openPublisher(t, project, host)
	var want []string
	var nudges sync.WaitGroup
	for i := range 50 {
		id := uuid.NewString()
		nudge, message := p.Nudge, `{"agent_id":"`+id+`"}`
		if i%2 == 0 {
			nudge, message = p.Wake, `{"agent_id":"`+id+`","wake":true}`
		}
		want = append(want, message)
		nudges.Go(func() {
			if err := nudge(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	nudges.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var got []string
	for len(got) < len(want) {
		pulled, err := client.SubscriptionAdminClient.Pull(ctx,
			&pubsubpb.PullRequest{Subscription: from, MaxMessages: 100})
		if err != nil {
			t.Fatalf("pull after %d of %d messages: %v", len(got), len(want), err)
		}
		for _, m := range pulled.GetReceivedMessages() {
			got = append(got, string(m.GetMessage().GetData()))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("messages = %v, want %v", got, want)
	}
}

// TestReportEgress_DeliversCounts: the message is one that the worker reads.
func TestReportEgress_DeliversCounts(t *testing.T) {
	t.Parallel()
	project := "p-" + uuid.NewString()
	client, err := pubsubemu.Client(t.Context(), host, project)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	p := openPublisher(t, project, host)
	sent := egress.Reports{Gate: "gate-1", Reports: []egress.Report{{
		AgentID: "agent-1", Hosts: []egress.Count{{Host: "a.example", Refused: 2, Reason: egress.NotListed}},
	}}}
	if err := p.ReportEgress(t.Context(), sent); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without a topic: %v, want Unavailable", err)
	}
	at, from := "projects/"+project+"/topics/"+topic, "projects/"+project+"/subscriptions/reports"
	if _, err := client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: at}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SubscriptionAdminClient.CreateSubscription(t.Context(),
		&pubsubpb.Subscription{Name: from, Topic: at}); err != nil {
		t.Fatal(err)
	}
	if err := p.ReportEgress(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	pulled, err := client.SubscriptionAdminClient.Pull(t.Context(),
		&pubsubpb.PullRequest{Subscription: from, MaxMessages: 1})
	if err != nil || len(pulled.GetReceivedMessages()) != 1 {
		t.Fatalf("pulled %v, %v; want one message", pulled, err)
	}
	var got egress.Reports
	if err := json.Unmarshal(pulled.GetReceivedMessages()[0].GetMessage().GetData(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("the message (-sent +got):\n%s", diff)
	}
}

func TestNudge_ToAMissingTopicIsUnavailable(t *testing.T) {
	t.Parallel()
	err := openPublisher(t, "p-"+uuid.NewString(), host).Nudge(t.Context(), uuid.NewString())
	if fault.Code(err) != "queue_unavailable" {
		t.Errorf("Nudge returned %v, want code queue_unavailable", err)
	}
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("Nudge returned %v, want kind Unavailable", err)
	}
}

// fakePubSub accepts every message. The server around it injects failures.
type fakePubSub struct {
	pubsubpb.UnimplementedPublisherServer
}

func (fakePubSub) Publish(context.Context, *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	return &pubsubpb.PublishResponse{MessageIds: []string{"1"}}, nil
}

func startFakePubSub(t *testing.T) *rpc.Server {
	t.Helper()
	server, err := rpc.Start(t.Context(), "",
		func(r grpc.ServiceRegistrar) { pubsubpb.RegisterPublisherServer(r, fakePubSub{}) },
		func(any) string { return topic })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestNudge_RetriesTransientErrorsOnly(t *testing.T) {
	t.Parallel()
	for code, wantCalls := range map[codes.Code]int{
		codes.Unavailable: 3, codes.Aborted: 3, codes.Internal: 3, codes.ResourceExhausted: 3,
		codes.PermissionDenied: 1, codes.NotFound: 1,
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			server := startFakePubSub(t)
			failures := make(chan struct{}, 2)
			failures <- struct{}{}
			failures <- struct{}{}
			server.Inject(func(string, string) rpc.Fault {
				select {
				case <-failures:
					return rpc.Fault{Before: status.Error(code, "no")}
				default:
					return rpc.Fault{}
				}
			})
			err := openPublisher(t, "p", server.Addr).Nudge(t.Context(), "a")
			if wantCalls == 3 && err != nil {
				t.Errorf("Nudge returned %v, want success after two retries", err)
			}
			if wantCalls == 1 && fault.Code(err) != "queue_unavailable" {
				t.Errorf("Nudge returned %v, want code queue_unavailable", err)
			}
			if got := server.Calls()["Publish"]; got != wantCalls {
				t.Errorf("Publish calls = %d, want %d", got, wantCalls)
			}
		})
	}
}

func TestNudge_EndsWhenItsCallerCancels(t *testing.T) {
	t.Parallel()
	server := startFakePubSub(t)
	ctx, cancel := context.WithCancel(t.Context())
	server.Inject(func(string, string) rpc.Fault { cancel(); return rpc.Fault{Delay: time.Hour} })
	if err := openPublisher(t, "p", server.Addr).Nudge(ctx, "a"); fault.Code(err) != "queue_unavailable" {
		t.Errorf("Nudge returned %v, want code queue_unavailable", err)
	}
}

func TestClose_WaitsForNudgesInFlight(t *testing.T) {
	t.Parallel()
	server := startFakePubSub(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	server.Inject(func(string, string) rpc.Fault { close(arrived); <-release; return rpc.Fault{} })
	p := openPublisher(t, "p", server.Addr)
	nudged, closed := make(chan error, 1), make(chan error, 2)
	go func() { nudged <- p.Nudge(t.Context(), "a") }()
	<-arrived
	go func() { closed <- p.Close() }()
	// Once Close has begun, it refuses further nudges.
	for !refusedBecauseClosed(p.Nudge(canceledContext(t), "b")) {
		continue
	}
	select {
	case err := <-closed:
		t.Errorf("Close returned %v before the nudge ended", err)
	default:
	}
	close(release)
	if err := <-nudged; err != nil {
		t.Errorf("the nudge in flight failed: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func canceledContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func refusedBecauseClosed(err error) bool {
	return fault.From(err).Code == "queue_unavailable" && fault.From(err).Unwrap().Error() == "the publisher is closed"
}

func TestOpen_RefusesMissingOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []pubsub.Options{{Topic: topic}, {ProjectID: "p"}, {}} {
		if _, err := pubsub.Open(t.Context(), o); err == nil {
			t.Errorf("Open with %+v returned no error", o)
		}
	}
}

func TestNudge_RefusesAnEmptyAgentID(t *testing.T) {
	t.Parallel()
	err := openPublisher(t, "p", host).Nudge(t.Context(), "")
	if err == nil || fault.From(err).Kind != fault.Internal {
		t.Errorf("Nudge returned %v, want an internal error", err)
	}
}
