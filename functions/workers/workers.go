// Package workers defines the functions that Pub/Sub pushes to: their topics, schedules and messages. It does not
// implement the work itself; packages provisioning, billing, metrics and organization do.
package workers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/egresslog"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/release"
	"agents.example/controlplane/shared/webhook"
)

// Reconcile brings the agent named in a nudge to its desired state.
func Reconcile(reconciler *provisioning.Reconciler) function.Worker {
	return function.Worker{
		Name: "ReconcileAgent", Topic: function.AgentNudges, Summary: "Bring an agent to its desired state",
		Needs: []function.Need{
			function.Firestore, function.NudgeWebhooks, function.SecretManage, function.ClusterApply,
			function.LogKeep, function.PodQuiesce, function.GatewayAccess,
		},
		Handle: func(ctx context.Context, m function.Message) error {
			nudge, err := agentNudge(m)
			if err != nil {
				return err
			}
			if nudge.Wake {
				return reconciler.Wake(ctx, nudge.AgentID, agent.WokenByRequest, m.PublishedAt)
			}
			return reconciler.Reconcile(ctx, nudge.AgentID)
		},
	}
}

// DeadLetter handles nudges that were delivered too often: the work on their agents ends or is nudged again. A message
// without an agent is logged and dropped: no work depends on it.
func DeadLetter(sweeper *provisioning.Sweeper) function.Worker {
	return function.Worker{
		Name: "DeadLetterAgent", Topic: function.AgentNudgesDead,
		Summary: "End or repeat the work on an agent whose nudge failed too often",
		Needs:   []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Handle: func(ctx context.Context, m function.Message) error {
			nudge, err := agentNudge(m)
			if err != nil {
				slog.ErrorContext(ctx, "dead-lettered message names no agent; dropped", "message_id", m.ID, "bytes",
					len(m.Data))
				return nil //nolint:nilerr // a retry cannot succeed
			}
			slog.WarnContext(ctx, "nudge delivered too often", "agent_id", nudge.AgentID, "message_id", m.ID)
			return sweeper.DeadLetter(ctx, nudge.AgentID)
		},
	}
}

// Deliver delivers the events of the webhook named in a nudge. A message without a webhook is logged and dropped.
func Deliver(deliverer *webhook.Deliverer) function.Worker {
	return function.Worker{
		Name: "DeliverWebhook", Topic: function.WebhookNudges, Summary: "Deliver events to the receiver of a webhook",
		Needs: []function.Need{
			function.Firestore, function.NudgeWebhooks, function.WebhookSign, function.WebhookSend,
		},
		Handle: func(ctx context.Context, m function.Message) error {
			var nudge function.WebhookNudge
			if err := json.Unmarshal(m.Data, &nudge); err != nil || uuid.Validate(nudge.WebhookID) != nil {
				slog.ErrorContext(ctx, "message names no webhook; dropped", "message_id", m.ID, "bytes", len(m.Data))
				return nil //nolint:nilerr // a retry cannot succeed
			}
			return deliverer.Deliver(ctx, nudge.WebhookID)
		},
	}
}

// RecordEgress records what a gate counted. A message that is no report is logged and dropped.
func RecordEgress(recorder *egresslog.Recorder) function.Worker {
	return function.Worker{
		Name: "RecordEgress", Topic: function.EgressReports,
		Summary: "Record which hosts agents reached and were refused",
		Needs:   []function.Need{function.Firestore, function.NudgeWebhooks},
		Handle: func(ctx context.Context, m function.Message) error {
			var reports egress.Reports
			if err := json.Unmarshal(m.Data, &reports); err != nil {
				slog.ErrorContext(ctx, "message has no reports of a gate; dropped", "message_id", m.ID, "bytes",
					len(m.Data))
				return nil //nolint:nilerr // a retry cannot succeed
			}
			return recorder.Record(ctx, reports)
		},
	}
}

// Sweep nudges the agents whose work is overdue, and the webhooks that are due.
func Sweep(agents *provisioning.Sweeper, webhooks *webhook.Sweeper) function.Worker {
	return function.Worker{
		Name: "SweepAgents", Schedule: "* * * * *",
		Summary: "Nudge the agents whose work is overdue, and the webhooks that are due",
		Needs:   []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Handle: func(ctx context.Context, _ function.Message) error {
			return errors.Join(agents.Sweep(ctx), webhooks.Sweep(ctx))
		},
	}
}

// Observe finds running agents that broke, and broken ones that recovered. Then it carries releases on, which judge by
// what it found.
func Observe(controller *provisioning.HealthController, releases *release.Roller) function.Worker {
	return function.Worker{
		Name: "ObserveAgents", Schedule: "* * * * *",
		Summary: "Find agents that broke or recovered by themselves, and carry releases on",
		Needs: []function.Need{
			function.Firestore, function.Publish, function.NudgeWebhooks, function.ClusterLook, function.LogKeep,
			function.GatewayAccess,
		},
		Handle: func(ctx context.Context, _ function.Message) error {
			return errors.Join(controller.CheckHealth(ctx), releases.Run(ctx))
		},
	}
}

// CheckDrift finds agents whose objects differ from their records.
func CheckDrift(checker *provisioning.DriftChecker) function.Worker {
	return function.Worker{
		Name: "CheckDrift", Schedule: "*/10 * * * *",
		Summary: "Find and repair objects that differ from their agent's record",
		Needs: []function.Need{
			function.Firestore, function.Publish, function.NudgeWebhooks, function.ClusterLook, function.LogKeep,
		},
		Handle: func(ctx context.Context, _ function.Message) error { return checker.CheckDrift(ctx) },
	}
}

// CollectOrphans deletes namespaces and secrets that belong to no agent.
func CollectOrphans(collector *provisioning.OrphanCollector) function.Worker {
	return function.Worker{
		Name: "CollectOrphans", Schedule: "17 * * * *",
		Summary: "Delete namespaces and secrets without an agent",
		Needs:   []function.Need{function.FirestoreRead, function.ClusterCollect, function.SecretCollect},
		Handle:  func(ctx context.Context, _ function.Message) error { return collector.Collect(ctx) },
	}
}

// Collect reads the metrics of agents. It runs every minute; the collector decides what is due.
func Collect(collector *metrics.Collector) function.Worker {
	return function.Worker{
		Name: "CollectMetrics", Schedule: "* * * * *",
		Summary: "Read the metrics of agents",
		Needs:   []function.Need{function.Firestore, function.Monitoring},
		Handle:  func(ctx context.Context, _ function.Message) error { return collector.Collect(ctx) },
	}
}

// EnforceAccounts enforces the state of organizations' accounts: it pauses agents when payments stop, and resumes them
// when payments resume. It fetches subscriptions whose events may be lost.
func EnforceAccounts(enforcer *billing.Enforcer) function.Worker {
	return function.Worker{
		Name: "EnforceAccounts", Schedule: "* * * * *",
		Summary: "Pause and resume agents as accounts demand",
		Needs:   []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks, function.Payments},
		Handle:  func(ctx context.Context, _ function.Message) error { return enforcer.Run(ctx) },
	}
}

// Recount recounts every organization's usage once a day. It repairs and reports records that differ. Every drift
// indicates a bug, because usage changes in the same commit as the resources it counts.
func Recount(counts organization.Counts) function.Worker {
	return function.Worker{
		Name: "RecountUsage", Schedule: "41 3 * * *",
		Summary: "Recount what organizations hold",
		Needs:   []function.Need{function.Firestore},
		Handle: func(ctx context.Context, _ function.Message) error {
			return organization.Recount(ctx, counts, func(d organization.Drift) {
				slog.WarnContext(ctx, "organization usage drifted; repaired", logevent.Key, logevent.UsageDriftRepaired,
					"organization_id", d.OrganizationID, "counted", d.Counted, "recorded", d.Recorded)
			})
		},
	}
}

// Backups says from when the newest backup of the records is, or the database itself if it has none yet.
type Backups interface {
	SafeSince(ctx context.Context) (time.Time, error)
}

// maxBackupAge is how old the newest backup may be. Firestore makes one at any time of each day, which takes a while.
const maxBackupAge = 50 * time.Hour

// CheckBackups looks once a day whether the records are backed up, because Firestore neither logs a backup that is
// missing nor has a metric of it.
func CheckBackups(backups Backups) function.Worker {
	return function.Worker{
		Name: "CheckBackups", Schedule: "11 5 * * *",
		Summary: "Check that the records are backed up",
		Needs:   []function.Need{function.BackupsRead},
		Handle: func(ctx context.Context, _ function.Message) error {
			since, err := backups.SafeSince(ctx)
			if err == nil && time.Since(since) > maxBackupAge {
				slog.ErrorContext(ctx, "records are not backed up", logevent.Key, logevent.RecordsNotBackedUp,
					"safe_since", since)
			}
			return err
		},
	}
}

// Seal seals the audit logs of the organizations that may read theirs.
func Seal(sealer *seal.Sealer) function.Worker {
	return function.Worker{
		Name: "SealAuditLogs", Schedule: "29 * * * *",
		Summary: "Seal new entries of audit logs",
		Needs:   []function.Need{function.Firestore},
		Handle:  func(ctx context.Context, _ function.Message) error { return sealer.Run(ctx) },
	}
}

// agentNudge decodes a nudge, which names an agent.
func agentNudge(m function.Message) (nudge function.AgentNudge, err error) {
	if err := json.Unmarshal(m.Data, &nudge); err != nil {
		return nudge, fault.New(fault.BadRequest, "nudge_malformed", "The message is not an agent nudge.").
			WithCause(err)
	}
	id, err := uuid.Parse(nudge.AgentID)
	if err != nil {
		return nudge, fault.New(fault.BadRequest, "nudge_malformed", "The message has no valid agent id.").
			WithCause(err)
	}
	nudge.AgentID = id.String()
	return nudge, nil
}
