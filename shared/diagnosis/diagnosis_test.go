package diagnosis_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/diagnosis"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

var begin = time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return begin.Add(d) }

// starting is an agent that was created at begin.
func starting() agent.Agent {
	return agent.New("0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "cell-1", agent.Draft{Name: "a", Plan: plan.Hobby}, begin)
}

// applied is a starting agent whose objects were applied after a second, and that waits for its pod.
func applied() agent.Agent {
	a := starting()
	for _, s := range agent.StageNames() {
		if s != agent.StageReady {
			a.BeginStage(s, begin)
			a.EndStage(s, agent.StageSucceeded, after(time.Second))
		}
	}
	a.Applied(after(time.Second))
	a.AwaitReady(nil, time.Time{}, after(time.Second))
	return a
}

// running is an agent that became ready after two seconds.
func running() agent.Agent {
	a := applied()
	a.BecameReady(after(2 * time.Second))
	return a
}

// with applies changes to an agent.
func with(a agent.Agent, change func(*agent.Agent)) agent.Agent {
	change(&a)
	return a
}

func crash() agent.Failure {
	return agent.Failure{
		Code: "pod_crash_loop", Stage: agent.StageReady, Message: "It exits.",
		Observed: agent.Observation{Reason: "Error", Exited: true, ExitCode: 3, Restarts: 4, Since: after(time.Second)},
	}
}

func outage() agent.Failure {
	return agent.Failure{
		Code: "cluster_unavailable", Stage: agent.StagePolicy, Message: "Unavailable.", Retryable: true, Outage: true,
	}
}

// changed is an agent with one operation on the secret TOKEN.
func changed(a agent.Agent, status secret.Status, code string) agent.Agent {
	a.Operations = []secret.Operation{{
		ID: "11111111-1111-4111-8111-111111111111", AgentID: a.ID, Key: "TOKEN", Action: secret.Set,
		Stage: secret.Rollout, Status: status, ErrorCode: code, CreatedAt: begin, UpdatedAt: after(time.Minute),
	}}
	return a
}

// withheld is an agent that the service paused.
func withheld(t *testing.T) agent.Agent {
	t.Helper()
	a := running()
	if err := a.Act(agent.Withhold, agent.Billing, after(time.Minute)); err != nil {
		t.Fatal(err)
	}
	a.MarkObserved(after(time.Minute))
	return a
}

// asleep returns an agent that sleeps, and what wakes it.
func asleep(wakers ...agent.Waker) agent.Agent {
	return with(running(), func(a *agent.Agent) {
		a.Sleep = agent.SleepPolicy{AfterSeconds: 1800, WakeOn: wakers}
		if err := a.FallAsleep("", after(time.Minute)); err != nil {
			panic(err)
		}
		a.MarkObserved(after(time.Minute))
	})
}

func account(status organization.Status) *billing.Account {
	return &billing.Account{Organization: organization.Organization{Status: status}}
}

// row is an agent in a situation, and what its diagnosis must say.
type row struct {
	agent   agent.Agent
	account *billing.Account
	at      time.Duration

	wantCodes   []string
	wantFirst   diagnosis.Action
	wantSummary string
	wantWaiting diagnosis.Party
	wantNext    time.Time
	wantGivesUp time.Time
}

func rows(t *testing.T) map[string]row {
	t.Helper()
	act := func(a agent.Agent, trigger agent.Trigger, observed bool) agent.Agent {
		if err := a.Act(trigger, agent.Manual, after(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if observed {
			a.MarkObserved(after(time.Minute))
		}
		return a
	}
	return map[string]row{
		"starts": {
			agent: starting(), at: time.Second, wantSummary: "The agent is being provisioned.",
			wantWaiting: diagnosis.Worker, wantNext: after(agent.NudgeGrace),
		},
		"waits for its pod": {
			agent: applied(), at: 2 * time.Second, wantSummary: "Its pod must become ready",
			wantWaiting: diagnosis.Cluster, wantNext: after(61 * time.Second),
			wantGivesUp: after(time.Second + agent.ProvisioningTimeout),
		},
		"starts slowly": {
			agent: applied(), at: 2 * time.Minute, wantCodes: []string{"slow_start"}, wantFirst: diagnosis.ReadLogs,
			wantSummary: "takes longer", wantWaiting: diagnosis.Cluster,
			wantGivesUp: after(time.Second + agent.ProvisioningTimeout),
		},
		"fails and is tried again": {
			agent: with(starting(), func(a *agent.Agent) { a.Attempts = 7; a.Retry(outage(), begin) }),
			at:    time.Second, wantCodes: []string{"cluster_unavailable"}, wantFirst: diagnosis.Wait,
			wantSummary: "The region's cluster cannot be reached.", wantWaiting: diagnosis.Worker,
			wantNext: after(2 * time.Minute),
		},
		"an outage after its objects were applied": {
			agent: with(applied(), func(a *agent.Agent) { a.Retry(outage(), after(2*time.Second)) }),
			at:    3 * time.Second, wantCodes: []string{"cluster_unavailable"}, wantFirst: diagnosis.Wait,
			wantSummary: "cannot be reached", wantWaiting: diagnosis.Worker, wantNext: after(62 * time.Second),
		},
		"a worker is processing it": {
			agent: with(starting(), func(a *agent.Agent) { a.AcquireLease("w", begin) }), at: time.Second,
			wantSummary: "The agent is being provisioned.", wantWaiting: diagnosis.Worker,
		},
		"crashes while it starts": {
			agent: with(applied(), func(a *agent.Agent) {
				a.AwaitReady(new(crash()), time.Time{}, after(2*time.Second))
			}),
			at: 3 * time.Second, wantCodes: []string{"pod_crash_loop"}, wantFirst: diagnosis.ReadPreviousLogs,
			wantSummary: "exits soon", wantWaiting: diagnosis.Cluster, wantNext: after(61 * time.Second),
			wantGivesUp: after(time.Second + agent.ProvisioningTimeout),
		},
		"crashed": {
			agent: with(running(), func(a *agent.Agent) { a.Break(crash(), after(time.Minute)) }), at: time.Hour,
			wantCodes: []string{"pod_crash_loop"}, wantFirst: diagnosis.ReadPreviousLogs,
			wantSummary: "The agent exits soon after it starts.", wantWaiting: diagnosis.User,
		},
		"is replaced and waits for a machine": {
			agent: with(act(running(), agent.Restart, false), func(a *agent.Agent) {
				a.Applied(after(time.Minute))
				a.AwaitReady(&agent.Failure{
					Code: agent.CodeUnschedulable, Message: "No room.",
					Observed: agent.Observation{Since: after(time.Minute)},
				}, time.Time{}, after(time.Minute))
			}), at: 61 * time.Second, wantCodes: []string{"pod_unschedulable"}, wantFirst: diagnosis.Wait,
			wantSummary: "no room", wantWaiting: diagnosis.Cluster, wantNext: after(2 * time.Minute),
			wantGivesUp: after(6 * time.Minute),
		},
		"runs": {agent: running(), at: time.Minute, wantSummary: "The agent is running. No problem was found."},
		"stopped for a snapshot": {
			agent: with(running(), func(a *agent.Agent) {
				r := agent.SnapshotRequest{Consistency: agent.ConsistentByStop}
				_, err := a.RequestSnapshot(r, after(time.Minute))
				if err != nil {
					panic(err)
				}
			}),
			at: 61 * time.Second, wantSummary: "stopped for a snapshot", wantWaiting: diagnosis.Cluster,
			wantNext: after(time.Minute + agent.NudgeGrace),
		},
		"volume from a snapshot": {
			agent: with(applied(), func(a *agent.Agent) { a.Volume.Unmade = true }),
			at:    2 * time.Second, wantSummary: "volume is being made from a snapshot", wantWaiting: diagnosis.Cluster,
			wantNext: after(61 * time.Second), wantGivesUp: after(time.Second + agent.ProvisioningTimeout),
		},
		"is being replaced": {
			agent: act(running(), agent.Restart, false), at: 61 * time.Second,
			wantSummary: "The pod is being replaced.", wantWaiting: diagnosis.Cluster, wantNext: after(2 * time.Minute),
		},
		"paused": {
			agent: act(running(), agent.Pause, true), at: time.Hour, wantCodes: []string{"agent_paused"},
			wantFirst: diagnosis.Resume, wantSummary: "The agent is paused.", wantWaiting: diagnosis.User,
		},
		"asleep": {
			agent: asleep(agent.RequestWakes, agent.ScheduleWakes), at: time.Hour, wantCodes: []string{"agent_asleep"},
			wantFirst: diagnosis.Wait, wantSummary: "The agent is asleep, because it was idle.",
		},
		"asleep, and no request wakes it": {
			agent: asleep(agent.ScheduleWakes), at: time.Hour, wantCodes: []string{"agent_asleep"},
			wantFirst: diagnosis.Resume, wantSummary: "The agent is asleep, because it was idle.",
		},
		"is being moved": {
			agent: with(running(), move(t)), at: 61 * time.Second,
			wantSummary: "is being moved to another cluster", wantWaiting: diagnosis.Cluster,
			wantNext: after(2 * time.Minute),
		},
		"could not be moved": {
			agent: with(running(), func(a *agent.Agent) {
				move(t)(a)
				taken := agent.SnapshotState{CutAt: after(1), Handle: "h", Ready: true}
				a.RecordSnapshot(a.StoppedFor, taken, after(time.Minute))
				a.GiveUp(agent.Failure{Code: "pod_crash_loop"}, after(time.Minute))
			}), at: 61 * time.Second,
			wantSummary: "could not be moved", wantWaiting: diagnosis.Cluster, wantNext: after(2 * time.Minute),
		},
		"is being stopped": {
			agent: act(running(), agent.Stop, false), at: 61 * time.Second, wantCodes: []string{"agent_stopped"},
			wantFirst: diagnosis.Start, wantSummary: "The agent is stopped.", wantWaiting: diagnosis.Worker,
			wantNext: after(2 * time.Minute),
		},
		"is deleted": {
			agent: with(act(running(), agent.Delete, false),
				func(a *agent.Agent) { a.AwaitDeletion(time.Time{}, after(time.Minute)) }),
			at: 61 * time.Second, wantCodes: []string{"agent_deleting"}, wantFirst: diagnosis.Wait,
			wantSummary: "being deleted", wantWaiting: diagnosis.Cluster, wantNext: after(2 * time.Minute),
		},
		"payment overdue": {
			agent: withheld(t), account: account(organization.PastDue), at: time.Hour,
			wantCodes: []string{"subscription_past_due"}, wantFirst: diagnosis.ManageBilling,
			wantSummary: "a payment is overdue", wantWaiting: diagnosis.Billing,
		},
		"suspended": {
			agent: withheld(t), account: account(organization.Suspended), at: time.Hour,
			wantCodes: []string{"organization_suspended"}, wantFirst: diagnosis.ContactSupport,
			wantSummary: "is suspended", wantWaiting: diagnosis.Support,
		},
		"too large for the plan": {
			agent: withheld(t), account: account(organization.Active), at: time.Hour,
			wantCodes: []string{"plan_capacity_exceeded"}, wantFirst: diagnosis.ComparePlans,
			wantSummary: "does not fit", wantWaiting: diagnosis.Billing,
		},
		"account unknown": {
			agent: withheld(t), at: time.Hour, wantCodes: []string{"billing_required"},
			wantFirst: diagnosis.ManageBilling, wantSummary: "plan or payments", wantWaiting: diagnosis.Billing,
		},
		"secret lost": {
			agent: changed(running(), secret.Failed, "secret_value_unavailable"), at: time.Hour,
			wantCodes: []string{"secret_value_unavailable"}, wantFirst: diagnosis.SetSecret,
			wantSummary: "failed at the stage rollout: The value of a secret is missing.", wantWaiting: diagnosis.User,
		},
		"secret not synced": {
			agent: changed(running(), secret.Failed, "sync_conflict"), at: time.Hour,
			wantCodes: []string{"sync_conflict"}, wantFirst: diagnosis.Reconcile, wantSummary: "came in between",
			wantWaiting: diagnosis.User,
		},
		"secret waits for the start": {
			agent: changed(act(running(), agent.Stop, true), secret.Pending, "agent_not_running"), at: time.Hour,
			wantCodes: []string{"agent_stopped"}, wantFirst: diagnosis.Start, wantSummary: "The agent is stopped.",
			wantWaiting: diagnosis.User,
		},
		"of a later release": {
			agent: with(running(), func(a *agent.Agent) { a.Break(agent.Failure{Code: "x"}, after(time.Minute)) }),
			at:    time.Hour, wantCodes: []string{"x"}, wantFirst: diagnosis.ReadLogs, wantSummary: "has a problem",
			wantWaiting: diagnosis.User,
		},
	}
}

// move begins to move an agent to another cell.
func move(t *testing.T) func(*agent.Agent) {
	t.Helper()
	return func(a *agent.Agent) {
		if err := a.StartMove(agent.Place{Cell: "other"}, false, after(time.Minute)); err != nil {
			t.Error(err)
		}
	}
}

// TestOf_SaysWhyAndWhatIsNext covers each situation that an agent can be in.
func TestOf_SaysWhyAndWhatIsNext(t *testing.T) {
	t.Parallel()
	for name, row := range rows(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := diagnosis.Of(diagnosis.Facts{
				Agent: row.agent, Account: row.account, Now: after(row.at),
				Caller: identity.Caller{OrganizationID: "o", Role: identity.RoleAdmin},
			})
			codes := []string(nil)
			for _, c := range v.Causes {
				codes = append(codes, c.Code)
				if c.Message == "" || len(c.Evidence) == 0 || len(c.YouCan) == 0 {
					t.Errorf("incomplete cause %+v", c)
				}
			}
			if !slices.Equal(codes, row.wantCodes) {
				t.Fatalf("causes = %q, want %q", codes, row.wantCodes)
			}
			if len(v.Causes) > 0 && v.Causes[0].YouCan[0].Action != row.wantFirst {
				t.Errorf("first step = %q, want %q", v.Causes[0].YouCan[0].Action, row.wantFirst)
			}
			if !strings.Contains(v.Summary, row.wantSummary) {
				t.Errorf("summary = %q, want %q in it", v.Summary, row.wantSummary)
			}
			waiting := diagnosis.Party("")
			if v.WaitingFor != nil {
				waiting = *v.WaitingFor
			}
			if waiting != row.wantWaiting {
				t.Errorf("waiting for %q, want %q", waiting, row.wantWaiting)
			}
			checkTime(t, "next attempt", v.NextAttemptAt, row.wantNext)
			checkTime(t, "gives up", v.GivesUpAt, row.wantGivesUp)
		})
	}
}

func checkTime(t *testing.T, what string, got *time.Time, want time.Time) {
	t.Helper()
	if (got == nil) != want.IsZero() || got != nil && !got.Equal(want) {
		t.Errorf("%s at %v, want %v", what, got, want)
	}
}

// TestOf_NamesWhatTheClusterReported checks the evidence of an observation.
func TestOf_NamesWhatTheClusterReported(t *testing.T) {
	t.Parallel()
	a := with(running(), func(a *agent.Agent) { a.Break(crash(), after(time.Minute)) })
	v := diagnosis.Of(diagnosis.Facts{Agent: a, Now: after(time.Hour)})
	want := []string{
		"status: error", "stage: ready", "reason: Error", "exit code: 3", "restarts: 4",
		"not ready since: 2026-03-02T09:00:01Z",
	}
	if got := v.Causes[0].Evidence; !slices.Equal(got, want) {
		t.Errorf("evidence = %q, want %q", got, want)
	}
	a.See(agent.PodSight{UID: "pod", Restarts: 7})
	later := diagnosis.Of(diagnosis.Facts{Agent: a, Now: after(time.Hour)}).Causes[0].Evidence
	if !slices.Contains(later, "restarts: 7") {
		t.Errorf("evidence after three more restarts = %q, want 7 restarts in it", later)
	}
	if !v.Since.Equal(after(time.Second)) {
		t.Errorf("since %v, want the time at which the pod ceased to be ready", v.Since)
	}
}

// TestOf_OffersOnlyWhatTheStatusAllows diagnoses every code in every status.
func TestOf_OffersOnlyWhatTheStatusAllows(t *testing.T) {
	t.Parallel()
	for code := range diagnosis.Texts() {
		for _, status := range agent.Status("").Values() {
			a := running()
			a.Status, a.Failure = agent.Status(status), &agent.Failure{Code: code}
			for _, c := range diagnosis.Of(diagnosis.Facts{Agent: a, Now: begin}).Causes {
				for _, s := range c.YouCan {
					trigger := agent.Trigger(s.Action)
					if slices.Contains(trigger.Values(), string(trigger)) &&
						!slices.Contains(a.AllowedActions(), trigger) {
						t.Errorf("%s, %s: the step %q is offered, which the status refuses", code, status, s.Action)
					}
					if !slices.Contains(s.Action.Values(), string(s.Action)) {
						t.Errorf("%s, %s: the action %q is not described", code, status, s.Action)
					}
				}
			}
		}
	}
}

// TestOf_ShowsMembersNoNamesOfSecrets diagnoses agents whose records name a secret.
func TestOf_ShowsMembersNoNamesOfSecrets(t *testing.T) {
	t.Parallel()
	lost := agent.Failure{
		Code: "secret_value_unavailable", Stage: agent.StageSecrets,
		Message: "The store may not have the value of TOKEN.",
	}
	for name, a := range map[string]agent.Agent{
		"operation": changed(running(), secret.Failed, "sync_conflict"),
		"failure":   with(starting(), func(a *agent.Agent) { a.Retry(lost, begin) }),
		"failure and change": with(changed(starting(), secret.Failed, "x"),
			func(a *agent.Agent) { a.Retry(lost, begin) }),
	} {
		for role, shown := range map[identity.Role]bool{identity.RoleAdmin: true, identity.RoleMember: false} {
			text, err := json.Marshal(diagnosis.Of(diagnosis.Facts{
				Agent: a, Now: begin, Caller: identity.Caller{OrganizationID: "o", Role: role},
			}))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(text), "TOKEN"); got != shown {
				t.Errorf("%s for the role %s: shows the name of the secret = %t, want %t: %s",
					name, role, got, shown, text)
			}
		}
	}
}

// history returns the events of an agent that failed, recovered and failed again, and its last state.
func history(t *testing.T) (agent.Agent, []event.Event) {
	t.Helper()
	a, events := agent.Agent{}, []event.Event(nil)
	commit := func(at time.Duration, next agent.Agent) {
		for i, d := range agent.Events(a, next) {
			events = append(events, event.Event{
				ID: event.NewID(after(at), event.RecordID(1), i), Type: d.Type, Data: d.Data, CreatedAt: after(at),
				OrganizationID: "o", AgentID: next.ID,
			})
		}
		a = next
	}
	copied := func(change func(*agent.Agent)) agent.Agent {
		next := a
		next.Stages = slices.Clone(a.Stages)
		return with(next, change)
	}
	commit(0, starting())
	commit(2*time.Second, running())
	commit(time.Minute, copied(func(a *agent.Agent) { a.Break(crash(), after(time.Minute)) }))
	commit(2*time.Minute, copied(func(a *agent.Agent) { a.Recover(after(2 * time.Minute)) }))
	lost := agent.Failure{Code: "secret_value_unavailable", Message: "The store may not have the value of TOKEN."}
	commit(3*time.Minute, copied(func(a *agent.Agent) { a.Break(lost, after(3*time.Minute)) }))
	commit(4*time.Minute, changed(a, secret.Failed, "sync_conflict"))
	return a, events
}

// diagnosed returns the messages of a timeline. Messages about stages are left out.
func diagnosed(f diagnosis.Facts) []string {
	var messages []string
	for _, m := range diagnosis.Of(f).Timeline {
		if m.Type != event.AgentStageChanged {
			messages = append(messages, m.Message)
		}
	}
	return messages
}

// TestTimeline_ShowsEveryFailure diagnoses an agent that failed, recovered and failed again. Its record has only the
// last failure.
func TestTimeline_ShowsEveryFailure(t *testing.T) {
	t.Parallel()
	a, events := history(t)
	member := []string{
		"The agent was created.", "The agent started and runs.", "The agent failed. It exits.",
		"The agent recovered and runs.",
		"The agent failed. The value of a secret is missing.",
	}
	admin := slices.Clone(member)
	admin[4] = "The agent failed. The value of a secret is missing. An admin can set it again."
	admin = append(admin, "The change of TOKEN failed at the stage rollout: sync_conflict.")
	for role, want := range map[identity.Role][]string{identity.RoleMember: member, identity.RoleAdmin: admin} {
		f := diagnosis.Facts{
			Agent: a, Events: events, Now: after(time.Hour), Caller: identity.Caller{OrganizationID: "o", Role: role},
		}
		got := slices.DeleteFunc(diagnosed(f), func(m string) bool { return strings.HasPrefix(m, "The agent changed") })
		if !slices.Equal(got, want) {
			t.Errorf("the timeline for the role %s is\n%q\nwant\n%q", role, got, want)
		}
		moments := diagnosis.Of(f).Timeline
		if !slices.IsSortedFunc(moments, func(x, y diagnosis.Moment) int { return x.At.Compare(y.At) }) {
			t.Errorf("timeline = %+v, want it in order", moments)
		}
	}
}

// TestTimeline_IsBounded diagnoses an agent with more events than a timeline may have, and one whose events are
// expired.
func TestTimeline_IsBounded(t *testing.T) {
	t.Parallel()
	a, events := history(t)
	last := events[len(events)-1]
	for len(events) < 2*diagnosis.MaxEvents {
		events = append(events, last)
	}
	f := diagnosis.Facts{
		Agent: a, Now: after(time.Hour), Caller: identity.Caller{OrganizationID: "o", Role: identity.RoleAdmin},
	}
	record := len(diagnosis.Of(f).Timeline)
	f.Events = events
	if n := len(diagnosis.Of(f).Timeline); n > record+diagnosis.MaxEvents {
		t.Errorf("the timeline has %d moments, want at most those of the record and %d events", n, diagnosis.MaxEvents)
	}
	f.Now = after(time.Hour + event.Retention)
	if n := len(diagnosis.Of(f).Timeline); n != record {
		t.Errorf("after the events have expired, the timeline has %d moments, want the %d of the record", n, record)
	}
}

// TestOf_ListsWhatHappenedInOrder checks the timeline of an agent that failed.
func TestOf_ListsWhatHappenedInOrder(t *testing.T) {
	t.Parallel()
	a := with(applied(), func(a *agent.Agent) { a.GiveUp(crash(), after(time.Minute)) })
	moments := diagnosis.Of(diagnosis.Facts{Agent: a, Now: after(time.Hour)}).Timeline
	if !slices.IsSortedFunc(moments, func(x, y diagnosis.Moment) int { return x.At.Compare(y.At) }) {
		t.Errorf("timeline = %+v, want it in order", moments)
	}
	if first := moments[0].Message; first != "The agent was created." {
		t.Errorf("the first moment is %q, want the creation", first)
	}
	const failed = "Failed: waiting until it is ready and answers. It exits."
	if last := moments[len(moments)-1].Message; last != failed {
		t.Errorf("the last moment is %q, want the failure", last)
	}
}

// TestOf_LeavesACustomImageToItsUser: the operator can repair only what an entry of the catalog names.
func TestOf_LeavesACustomImageToItsUser(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]struct {
		step  diagnosis.Action
		party diagnosis.Party
	}{
		image.DefaultID: {step: diagnosis.ContactSupport, party: diagnosis.Support},
		image.CustomID:  {step: diagnosis.Update, party: diagnosis.User},
	} {
		a := applied()
		a.Image.ID = id
		a.GiveUp(agent.Failure{Code: "image_pull_failed", Stage: agent.StageReady}, after(time.Minute))
		d := diagnosis.Of(diagnosis.Facts{Agent: a, Now: after(time.Minute)})
		if got := d.Causes[0]; got.YouCan[0].Action != want.step || *d.WaitingFor != want.party {
			t.Errorf("image %s: %+v, waits for %s; want the step %s of %s", id, got, *d.WaitingFor, want.step,
				want.party)
		}
	}
}

// TestOf_SuspectsTheSandboxOfAContainerThatExits: only the container's log can say that a system call is missing.
func TestOf_SuspectsTheSandboxOfAContainerThatExits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*agent.Agent)
		want   diagnosis.Action
	}{
		"plain":     {change: func(*agent.Agent) {}},
		"sandboxed": {change: func(a *agent.Agent) { a.Sandbox = true }, want: diagnosis.MoveOutOfSandbox},
		"custom image": {
			change: func(a *agent.Agent) { a.Sandbox, a.Image.ID = true, image.CustomID },
			want:   diagnosis.ContactSupport,
		},
		"short of memory": {change: func(a *agent.Agent) { a.Sandbox, a.Failure.Code = true, "out_of_memory" }},
	} {
		a := applied()
		a.GiveUp(crash(), after(time.Minute))
		c.change(&a)
		steps := diagnosis.Of(diagnosis.Facts{Agent: a, Now: after(time.Minute)}).Causes[0].YouCan
		at := slices.IndexFunc(steps, func(s diagnosis.Step) bool {
			return strings.Contains(s.Text, "Function not implemented")
		})
		switch {
		case (at >= 0) != (c.want != ""):
			t.Errorf("%s: the steps are %v, want one about the sandbox: %t", name, steps, c.want != "")
		case at >= 0 && steps[at].Action != c.want:
			t.Errorf("%s: the step is %s, want %s", name, steps[at].Action, c.want)
		}
	}
}
