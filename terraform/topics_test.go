package terraform_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// subscription is what a subscription does with messages that a worker does not answer.
type subscription struct{ Deadline, Retention, Expires, DeadLetters, Attempts, Least, Most string }

// TestSubscriptions_KeepNudgesAndDropOldTicks holds that nudges are kept for a week and moved away after 20 attempts,
// that ticks are kept for an hour, that no subscription expires, and that repeats slow down to one in ten minutes.
func TestSubscriptions_KeepNudgesAndDropOldTicks(t *testing.T) {
	t.Parallel()
	const week, hour, never, none = "604800s", "3600s", "", "(none)"
	want := map[string]subscription{}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		row := subscription{
			Deadline: "30", Retention: week, Expires: never, DeadLetters: none, Attempts: none,
			Least: "10s", Most: "600s",
		}
		if w.Schedule != "" {
			row.Deadline, row.Retention = "600", hour
		}
		if w.Topic == function.AgentNudges {
			row.DeadLetters, row.Attempts = `google_pubsub_topic.this["agent-nudges-dead"].id`, "20"
		}
		want[`worker["`+w.Name+`"]`] = row
	}
	got := map[string]subscription{}
	for address, s := range load(t, nil).resources(t, "google_pubsub_subscription") {
		got[address] = subscription{
			Deadline: text(t, s, "ack_deadline_seconds"), Retention: text(t, s, "message_retention_duration"),
			Expires:     text(t, s, "expiration_policy.0.ttl"),
			DeadLetters: text(t, s, "dead_letter_policy.0.dead_letter_topic"),
			Attempts:    text(t, s, "dead_letter_policy.0.max_delivery_attempts"),
			Least:       text(t, s, "retry_policy.0.minimum_backoff"),
			Most:        text(t, s, "retry_policy.0.maximum_backoff"),
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subscriptions (-want +got):\n%s", diff)
	}
}

// TestSchedules_TickTheirWorkers holds that each scheduled worker has a job that publishes to the worker's topic.
func TestSchedules_TickTheirWorkers(t *testing.T) {
	t.Parallel()
	type job struct{ Schedule, Zone, Topic, Data string }
	want, got := map[string]job{}, map[string]job{}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		if w.Schedule != "" {
			want[`tick["`+w.Name+`"]`] = job{
				Schedule: w.Schedule, Zone: "Etc/UTC", Topic: `google_pubsub_topic.this["` + string(w.Topic) + `"].id`,
				Data: "e30=", // {}
			}
		}
	}
	for address, j := range load(t, nil).resources(t, "google_cloud_scheduler_job") {
		got[address] = job{
			Schedule: text(t, j, "schedule"), Zone: text(t, j, "time_zone"),
			Topic: text(t, j, "pubsub_target.0.topic_name"), Data: text(t, j, "pubsub_target.0.data"),
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}
