package firestore

import (
	"slices"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
)

// agentFields lists what is stored of an agent. writeID names the last write: it shows whether a commit whose answer
// was lost was carried out.
func agentFields(a *agent.Agent, writeID *string) fields {
	return slices.Concat(agentCallFields(a), agentVolumeFields(a), agentEgressFields(a), fields{
		{"organization_id", text(&a.OrganizationID)},
		{"name", text(&a.Name)},
		{"slug", text(&a.Slug)},
		{"plan", text(&a.Plan)},
		{"cloud", text(&a.Cloud)},
		{"region", text(&a.Region)},
		{"cell", text(&a.Cell)},
		{"config", jsonText(&a.Config)},
		{"env", array(&a.Env, envFields)},
		{"files", array(&a.Files, fileFields)},
		{"public_paths", texts(&a.PublicPaths)},
		{"sleep", compactGroup(sleepFields(a))},
		{"image", compactKeyedGroup(softwareFields(&a.Image))},
		{"front", compactKeyedGroup(softwareFields(&a.Front))},
		{"watched_by", text(&a.WatchedBy)},
		{"image_policy", text(&a.ImagePolicy)},
		{"maintenance_window", optional(&a.MaintenanceWindow, maintenanceWindowFields)},
		{"sandbox", flag(&a.Sandbox)},
		{"last_ready_isolation", text(&a.LastReadyIsolation)},
		{"status", text(&a.Status)},
		{"held", compactGroup(usageFields(&a.Held))},
		{"status_reason", text(&a.StatusReason)},
		{"stages", array(&a.Stages, stageFields)},
		{"failure", optional(&a.Failure, failureFields)},
		{"revert_reason", optional(&a.RevertReason, failureFields)},
		{"warming", flag(&a.Warming)},
		{"rotation_pending", flag(&a.RotationPending)},
		{"routed", flag(&a.Routed)},
		{"credential_version", number(&a.CredentialVersion)},
		{"api_key_hash", text(&a.APIKeyHash)},
		{"former_credential", number(&a.FormerCredential)},
		{"revealed_at", timestamp(&a.RevealedAt)},
		{"name_at_start", text(&a.NameAtStart)},
		{"rollout", number(&a.Rollout)},
		{"operations", array(&a.Operations, operationFields)},
		{"secrets_revision", number(&a.SecretsRevision)},
		{"storing_until", timestamp(&a.StoringUntil)},
		{"live", array(&a.Live, liveFields)},
		{"secret_versions", array(&a.SecretVersions, secretVersionFields)},
		{"serving_changes", array(&a.ServingChanges, servingChangeFields)},
		{"awake", compactGroup(awakeFields(&a.Awake))},
		{"pod_restarts", compactGroup(podRestartFields(&a.PodRestarts))},
		{"deletion", compactKeyedGroup(deletionFields(&a.Deletion))},
		{"generation", number(&a.Generation)},
		{"observed_generation", number(&a.ObservedGeneration)},
		{"attempts", number(&a.Attempts)},
		{"lease_holder", text(&a.Lease.Holder)},
		{"lease_until", timestamp(&a.Lease.Until)},
		{"retry_at", timestamp(&a.RetryAt)},
		{"work_due_at", timestamp(&a.WorkDueAt)},
		{"deadline", timestamp(&a.Deadline)},
		{"applied_at", timestamp(&a.AppliedAt)},
		{"waiting_since", timestamp(&a.WaitingSince)},
		{"created_at", timestamp(&a.CreatedAt)},
		{"updated_at", timestamp(&a.UpdatedAt)},
		{"created_by", text(&a.CreatedBy)},
		{"change_id", text(&a.ChangeID)},
		{"write_id", text(writeID)},
	})
}

// agentCallFields lists what is stored of an agent's schedules.
func agentCallFields(a *agent.Agent) fields {
	return fields{
		{"schedules", array(&a.Schedules, scheduleFields)},
		{"wake_at", timestamp(&a.WakeAt)},
		{"calls_due_at", timestamp(&a.CallsDueAt)},
		{"calls_paused_until", timestamp(&a.CallsPausedUntil)},
	}
}

// agentVolumeFields lists what is stored of an agent's volumes and their snapshots.
func agentVolumeFields(a *agent.Agent) fields {
	return fields{
		{"volume", compactKeyedGroup(volumeFields(&a.Volume))},
		{"former_volumes", array(&a.FormerVolumes, formerVolumeFields)},
		{"snapshots", array(&a.Snapshots, snapshotFields)},
		{"stopped_for", text(&a.StoppedFor)},
		{"daily_snapshot_at", timestamp(&a.DailySnapshotAt)},
		{"move", compactKeyedGroup(moveFields(&a.Move))},
		{"imports", flag(&a.Imports)},
		{"reader", compactKeyedGroup(readerFields(&a.Reader))},
		{"clone_of", text(&a.CloneOf)},
		{"unset_secrets", texts(&a.UnsetSecrets)},
	}
}

// agentEgressFields lists what is stored of what an agent may reach.
func agentEgressFields(a *agent.Agent) fields {
	return fields{
		{"egress", compactGroup(egressFields(&a.Egress))}, {"injected", array(&a.Injected, injectedFields)},
	}
}

func egressFields(r *egress.Rules) fields {
	return fields{{"mode", text(&r.Mode)}, {"allow", texts(&r.Allow)}, {"deny", texts(&r.Deny)}}
}

func injectedFields(s *agent.InjectedSecret) fields {
	return fields{
		{"key", text(&s.Key)},
		{"version", number(&s.Version)},
		{"bytes", number(&s.Bytes)},
		{"set_at", timestamp(&s.SetAt)},
		{"target", text(&s.Target)},
	}
}

func moveFields(m *agent.Move) fields {
	return fields{
		{"requested_at", timestamp(&m.RequestedAt)},
		{"state", text(&m.State)},
		{"from_cell", text(&m.From.Cell)},
		{"from_region", text(&m.From.Region)},
		{"to_cell", text(&m.To.Cell)},
		{"to_region", text(&m.To.Region)},
		{"snapshot_id", text(&m.SnapshotID)},
		{"volume", compactKeyedGroup(volumeFields(&m.Volume))},
		{"since", timestamp(&m.Since)},
		{"cleared", flag(&m.Cleared)},
		{"look_at", timestamp(&m.LookAt)},
		{"gone_at", timestamp(&m.GoneAt)},
		{"reason", text(&m.Reason)},
	}
}

func volumeFields(v *agent.Volume) fields {
	return fields{
		{"number", number(&v.Number)},
		{"source", compactGroup(volumeSourceFields(&v.Source))},
		{"unmade", flag(&v.Unmade)},
	}
}

func volumeSourceFields(s *agent.VolumeSource) fields {
	return fields{{"snapshot_id", text(&s.SnapshotID)}, {"handle", text(&s.Handle)}}
}

func formerVolumeFields(v *agent.FormerVolume) fields {
	return fields{{"number", number(&v.Number)}, {"look_at", timestamp(&v.LookAt)}, {"gone_at", timestamp(&v.GoneAt)}}
}

func readerFields(r *agent.Reader) fields {
	return fields{
		{"number", number(&r.Number)},
		{"snapshot_id", text(&r.SnapshotID)},
		{"holder", text(&r.Holder)},
		{"until", timestamp(&r.Until)},
		{"look_at", timestamp(&r.LookAt)},
		{"charged", flag(&r.Charged)},
		{"gone_at", timestamp(&r.GoneAt)},
		{"problem", text(&r.Problem)},
	}
}

func snapshotFields(s *agent.Snapshot) fields {
	return fields{
		{"id", text(&s.ID)},
		{"name", text(&s.Name)},
		{"cause", text(&s.Cause)},
		{"status", text(&s.Status)},
		{"consistency", text(&s.Consistency)},
		{"volume", number(&s.Volume)},
		{"image", text(&s.Image)},
		{"created_by", text(&s.CreatedBy)},
		{"created_at", timestamp(&s.CreatedAt)},
		{"requested_at", timestamp(&s.RequestedAt)},
		{"cut_at", timestamp(&s.CutAt)},
		{"handle", text(&s.Handle)},
		{"ready_at", timestamp(&s.ReadyAt)},
		{"size_bytes", number(&s.SizeBytes)},
		{"expires_at", timestamp(&s.ExpiresAt)},
		{"look_at", timestamp(&s.LookAt)},
		{"gone_at", timestamp(&s.GoneAt)},
		{"problem", text(&s.Problem)},
	}
}

func sleepFields(a *agent.Agent) fields {
	return fields{
		{"after_seconds", number(&a.Sleep.AfterSeconds)},
		{"wake_on", texts(&a.Sleep.WakeOn)},
		{"door", text(&a.Door)},
		{"woken_by", text(&a.WokenBy)},
		{"awake_until", timestamp(&a.AwakeUntil)},
	}
}

func awakeFields(l *agent.AwakeLog) fields {
	return fields{{"since", timestamp(&l.Since)}, {"last", number(&l.Last)}, {"seconds", numbers(&l.Seconds)}}
}

func scheduleFields(s *agent.Schedule) fields {
	return fields{
		{"id", text(&s.ID)},
		{"cron", text(&s.Cron)},
		{"timezone", text(&s.Timezone)},
		{"path", text(&s.Path)},
		{"body", text(&s.Body)},
		{"missed", text(&s.Missed)},
		{"disabled", flag(&s.Disabled)},
		{"after", timestamp(&s.After)},
		{"call", compactKeyedGroup(fields{
			{"due_at", timestamp(&s.Call.DueAt)},
			{"ordered_at", timestamp(&s.Call.OrderedAt)},
			{"front", text(&s.Call.Front)},
			{"look_at", timestamp(&s.Call.LookAt)},
		})},
		{"last", compactKeyedGroup(fields{
			{"due_at", timestamp(&s.Last.DueAt)},
			{"called_at", timestamp(&s.Last.CalledAt)},
			{"outcome", text(&s.Last.Outcome)},
			{"status", number(&s.Last.Status)},
			{"duration_ms", number(&s.Last.DurationMS)},
		})},
		{"skipped", number(&s.Skipped)},
	}
}

func podRestartFields(r *agent.PodRestarts) fields {
	return fields{{"total", number(&r.Total)}, {"pod", text(&r.Pod)}, {"seen", number(&r.Seen)}}
}

func envFields(e *agent.EnvVar) fields {
	return fields{
		{"key", text(&e.Key)},
		{"value", text(&e.Value)},
		{"secret_version", number(&e.SecretVersion)},
		{"bytes", number(&e.Bytes)},
		{"set_at", timestamp(&e.SetAt)},
	}
}

func fileFields(f *agent.File) fields {
	return fields{
		{"path", text(&f.Path)},
		{"content", text(&f.Content)},
		{"bytes", number(&f.Bytes)},
		{"secret", text(&f.Secret)},
		{"mode", number(&f.Mode)},
	}
}

func stageFields(s *agent.Stage) fields {
	return fields{
		{"name", text(&s.Name)},
		{"status", text(&s.Status)},
		{"attempt", number(&s.Attempt)},
		{"started_at", timestamp(&s.StartedAt)},
		{"finished_at", timestamp(&s.FinishedAt)},
		{"error_code", text(&s.ErrorCode)},
		{"message", text(&s.Message)},
	}
}

func failureFields(f *agent.Failure) fields {
	return fields{
		{"code", text(&f.Code)},
		{"stage", text(&f.Stage)},
		{"message", text(&f.Message)},
		{"retryable", flag(&f.Retryable)},
		{"outage", flag(&f.Outage)},
		{"observed", compactGroup(observationFields(&f.Observed))},
	}
}

func observationFields(o *agent.Observation) fields {
	return fields{
		{"reason", text(&o.Reason)},
		{"exited", flag(&o.Exited)},
		{"exit_code", number(&o.ExitCode)},
		{"restarts", number(&o.Restarts)},
		{"lacks", text(&o.Lacks)},
		{"since", timestamp(&o.Since)},
	}
}

func liveFields(l *agent.LiveVersion) fields {
	return fields{
		{"key", text(&l.Key)},
		{"version", number(&l.Version)},
	}
}

func servingChangeFields(c *agent.ServingChange) fields {
	return fields{
		{"since", timestamp(&c.Since)},
		{"serving", text(&c.Serving)},
	}
}

func secretVersionFields(r *agent.VersionRange) fields {
	return fields{
		{"key", text(&r.Key)},
		{"highest", number(&r.Highest)},
		{"destroyed_before", number(&r.DestroyedBefore)},
	}
}
