package diagnosis

import (
	"slices"

	"agents.example/controlplane/shared/agent"
)

// rule explains one code: of an agent's failure, of a secret operation, or of a situation.
type rule struct {
	code string
	// title says what is wrong in a sentence without its full stop.
	title string
	// youCan lists what a user can do, the best step first.
	youCan []Step
	// trying says what the control plane or the cluster does while the agent is still being brought up.
	trying string
	// next is who must act while the control plane tries, and ended who must act once it has given up.
	next, ended Party
	// private is true if the record's message may name a secret, which members must not see.
	private bool
}

// The steps that several rules have.
func again(text string) Step { return Step{tryAgain, text} }

func support() Step {
	return Step{ContactSupport, "Contact support if this persists, and name the agent's id."}
}

func waitForUs() []Step {
	return []Step{{Wait, "Wait. Nothing is wrong with the agent, and there is nothing to change."}}
}

// outage is a rule for what the control plane cannot reach. It tries forever.
func outage(code, title string) rule {
	return rule{
		code: code, title: title, youCan: waitForUs(), trying: "The service tries again until it succeeds.",
		next: Worker, ended: Worker,
	}
}

// ours is a rule for what only the operator can repair.
func ours(code, title string) rule {
	return rule{code: code, title: title, next: Support, ended: Support, youCan: []Step{
		{ContactSupport, "Contact support, and name the agent's id. Only the operator can repair this."},
	}}
}

// rules is the table of codes. TestRules_HaveEveryCode compares it with the codes of the code base.
func rules() []rule {
	private := append(secretRules(), ours("object_rejected", "The cluster does not accept the agent's configuration"))
	for i := range private {
		private[i].private = true
	}
	return slices.Concat(podRules(), readinessRules(), platformRules(), private, situationRules())
}

// podRules are about a container that does not keep running.
func podRules() []rule {
	return append(beginRules(), []rule{
		{
			code: "pod_crash_loop", title: "The agent exits soon after it starts",
			youCan: []Step{
				{ReadPreviousLogs, "Read the last lines that it wrote before it exited. They usually say why. " +
					"Those of earlier runs are kept for a week."},
				{Update, "Check that its variables are complete and correct."},
				{SetSecret, "Set the secrets that are missing or wrong."},
				again("Then start it again."),
			},
			trying: "The cluster keeps starting it, with longer and longer pauses.", next: Cluster, ended: User,
		},
		{
			code: "out_of_memory", title: "The agent needs more memory than its plan has",
			youCan: []Step{
				{ViewMetrics, "Look at its memory, and lower what it keeps there."},
				{ReadPreviousLogs, "Read the last lines that it wrote. They may say what it did."},
				{Update, "Change the variables that decide how much memory it uses."},
				again("Then start it again."),
				{Resize, "Or move it to a larger plan. Its volume grows with it."},
				{ComparePlans, "Compare the plans."},
			},
			trying: "The cluster keeps starting it, with longer and longer pauses.", next: Cluster, ended: User,
		},
		{
			code: "scratch_full", title: "The agent fills the space for its temporary files",
			youCan: []Step{
				{ReadPreviousLogs, "Read the logs of its earlier runs. They may say what it wrote."},
				{Update, "Make it write large files to its volume, for example with the variable TMPDIR."},
				again("Then start it again."),
			},
			trying: "The cluster starts it again each time.", next: Cluster, ended: User,
		},
		{
			code: "pod_unschedulable", title: "The region has no room for the agent at the moment",
			youCan: []Step{{Wait, "Wait some minutes."}, again("Start it again later."), support()},
			trying: "The cluster adds a machine by itself. That usually takes a few minutes.",
			next:   Cluster, ended: User,
		},
		{
			code: "sandbox_unschedulable", title: "The region's cluster does not provide the sandbox",
			youCan: []Step{
				{MoveOutOfSandbox, "Run the agent without the sandbox."}, again("Then start it again."), support(),
			},
			next: Cluster, ended: User,
		},
		{
			code: "quota_exceeded", title: "The previous pod still occupies the agent's place",
			youCan: []Step{{Wait, "Wait a moment."}, again("Start it again."), support()},
			trying: "The place becomes free when the previous pod has ended.", next: Cluster, ended: User,
		},
		{
			code: "volume_unavailable", title: "The agent's volume is not attached yet",
			youCan: []Step{{Wait, "Wait some minutes."}, again("Start it again."), support()},
			trying: "The cluster keeps trying. The files are kept.", next: Cluster, ended: Support,
		},
	}...)
}

// beginRules are about a pod whose containers cannot be started.
func beginRules() []rule {
	return []rule{
		{
			code: "container_start_failed", title: "The agent's container cannot start with its configuration",
			youCan: []Step{
				{Update, "Check its variables and secrets."}, again("Start it again."), support(),
			},
			trying: "The service applies the configuration again.", next: Worker, ended: User,
		},
		{
			code: "files_not_written", title: "The agent's files cannot be written to its volume",
			youCan: []Step{
				{Update, "Change the paths of its files, or remove the files that are in the way of others."},
				{Resize, "If its volume is full, move it to a larger plan."},
				again("Start it again."), support(),
			},
			trying: "The cluster keeps trying, with longer and longer pauses.", next: Cluster, ended: User,
		},
		{
			code: "import_failed", title: "The archive with which the agent begins cannot be imported",
			youCan: []Step{
				{Wait, "If its server cannot be reached, wait: it is tried again."},
				again("Start it again once its server has the archive. Or create another agent, with another URL."),
				support(),
			},
			trying: "The cluster keeps trying, with longer and longer pauses.", next: Cluster, ended: User,
		},
		ours(imagePullFailed, imagePullTitle),
		ours("pod_rejected", "The cluster does not accept the agent's pod"),
	}
}

const (
	imagePullFailed = "image_pull_failed"
	imagePullTitle  = "The cluster cannot get the agent's image"
)

// customImagePullFailed is the rule for an image that the user chose and no entry of the catalog names.
func customImagePullFailed() rule {
	return rule{
		code: imagePullFailed, title: imagePullTitle,
		youCan: []Step{
			{Update, "Push the image to its registry under the digest that you chose, or choose another one."},
			again("Then start it again."), support(),
		},
		trying: "The cluster keeps trying, with longer and longer pauses.", next: Cluster, ended: User,
	}
}

// readinessRules are about an agent that runs and does not answer, or did not in time.
func readinessRules() []rule {
	late := []Step{
		{ReadLogs, "Read its log: does it still load something, or wait for another service?"},
		{Update, "Check its variables. It must accept connections on the port in the variable PORT."},
		again("Then start it again."), support(),
	}
	return []rule{
		{
			code: "readiness_timeout", title: "The agent did not become ready in time", youCan: late,
			trying: "The service keeps looking until the agent is ready.", next: Program, ended: User,
		},
		{
			code: "gateway_unhealthy", title: "The pod runs, but the agent does not answer on its address",
			youCan: []Step{
				{Wait, "Wait a moment: most agents need some seconds."},
				{ReadLogs, "Read its log for errors while it starts."},
				again("Then start it again."),
			},
			trying: "The service keeps asking until the agent answers.", next: Program, ended: User,
		},
		{
			code: "rollout_timeout", title: "The new pod did not become ready in time", youCan: late,
			trying: "The service keeps looking until the pod is ready.", next: Program, ended: User,
		},
		{
			code: "attempts_exhausted", title: "All attempts to start the agent failed",
			youCan: []Step{again("Start it again."), {ReadLogs, "If that fails, too, read its log."}, support()},
			next:   Worker, ended: User,
		},
		{
			code: slowStart, title: "The start takes longer than usual",
			youCan: []Step{
				{ReadLogs, "Read the log, if the pod runs already. It may wait for another service."},
			},
			trying: "The service keeps trying, and then says what the problem is.", next: Worker, ended: User,
		},
	}
}

// platformRules are about the control plane and what it depends on.
func platformRules() []rule {
	terminating := outage("namespace_terminating", "What was there before is still being removed")
	terminating.next = Cluster
	return []rule{
		outage("cluster_unavailable", "The region's cluster cannot be reached"),
		outage("cluster_unreachable", "The region's cluster cannot be reached"),
		outage("store_unavailable", "The service's database cannot be reached"),
		outage("queue_unavailable", "The service's queue cannot be reached"),
		outage("timeout", "A call of the service took too long"),
		outage("provisioning_failed", "An attempt to bring up the agent failed"),
		outage("stale_generation", "Another change of the agent came in between"),
		outage("sync_conflict", "Another change of the agent came in between"),
		outage("internal_error", "An error of the service"),
		terminating,
		{
			code: "namespace_missing", title: "The agent's place in the cluster is gone, and its files with it",
			youCan: []Step{
				{ContactSupport, "If the plan has daily backups, ask support to restore the volume first."},
				again("Or start the agent with an empty volume."),
			},
			trying: "The service makes the place again for an agent that never ran.", next: Worker, ended: User,
		},
		{
			code: "snapshot_gone", title: "The snapshot that the agent's volume is made from no longer exists",
			youCan: []Step{
				{RestoreSnapshot, "Restore another snapshot of the agent. Its data before a restore is one."},
				{ContactSupport, "If the agent is a clone, delete it and make another one. Contact support if this " +
					"persists, and name the agent's id."},
			},
			next: User, ended: User,
		},
		ours("volume_cannot_grow", "The agent's volume cannot grow to its size"),
		ours("snapshots_missing", "The agent's cluster takes no snapshots"),
		ours("cell_unknown", "The service does not know the agent's cluster"),
		ours("plan_unknown", "The service does not know the agent's plan"),
		ours("namespace_not_owned", "The agent's place in the cluster belongs to something else"),
	}
}

// secretRules are about the secret store.
func secretRules() []rule {
	return []rule{
		{
			code: agent.CodeValueUnavailable, title: "The value of a secret is missing",
			youCan: []Step{
				{SetSecret, "Set the secret again. The list of variables shows which one has no stored value."},
				{Reconcile, "Reconcile its operation, if the request may have stored the value after all."},
				again("Then start the agent again."),
			},
			trying: "The service looks for the value again.", next: User, ended: User,
		},
		outage("secret_store_unavailable", "The secret store cannot be reached"),
		outage("secret_quota_exceeded", "The secret store is at its limit"),
		ours("secret_store_denied", "The service may not read the agent's secrets"),
		{
			code: "agent_not_running", title: "The agent does not run",
			youCan: []Step{
				{Start, "Start the agent. The change goes on by itself then."},
				{Resume, "Resume the agent. The change goes on by itself then."},
			},
			next: User, ended: User,
		},
	}
}

// situationRules are about agents without a failure.
func situationRules() []rule {
	return []rule{
		{
			code: agentPaused, title: "The agent is paused",
			youCan: []Step{{Resume, "Resume it. That never fails for lack of capacity."}}, next: Worker, ended: User,
		},
		{
			code: agentAsleep, title: "The agent is asleep, because it was idle",
			youCan: []Step{
				{Wait, "Nothing is wrong with the agent. A request to its address wakes it, and is answered once " +
					"it is ready."},
				{Resume, "Resume it to wake it now."},
				{Update, "To keep it awake, set that it never sleeps, or sleeps later (sleep.after_seconds)."},
			},
			trying: "The service wakes the agent when a request comes.", next: Worker, ended: User,
		},
		{
			code: agentStopped, title: "The agent is stopped",
			youCan: []Step{{Start, "Start it. The plan must have room for its CPU and memory."}},
			next:   Worker, ended: User,
		},
		{
			code: agentDeleting, title: "The agent is being deleted",
			youCan: []Step{{Wait, "Wait until nothing of it is left. A deletion cannot be undone."}},
			trying: "The pod, the volume, the secrets and the address are removed, and each removal is checked. " +
				"The service tries again until it succeeds.",
			next: Cluster, ended: Cluster,
		},
		{
			code: paymentOverdue, title: "The agent is paused because a payment is overdue",
			youCan: []Step{{ManageBilling, "Pay the open amount."}},
			trying: "Once the payment succeeds, the service resumes the agent.", next: Billing, ended: Billing,
		},
		{
			code: billingRequired, title: "The agent is paused because of the organization's plan or payments",
			youCan: []Step{{ManageBilling, "Look at the organization's plan and payments."}},
			trying: "The service resumes the agent when the account allows it.", next: Billing, ended: Billing,
		},
		{
			code: egressRefused, title: "The agent was refused hosts that its egress rules do not allow",
			youCan: []Step{{AllowHosts, "Allow the hosts that it needs: POST /api/v1/agents/{agent_id}/egress-hosts, " +
				"or agentctl egress allow AGENT HOST. It reaches them within seconds, without a restart."}},
			next: User, ended: User, private: true,
		},
		{
			code: suspended, title: "The agent is paused because the organization is suspended",
			youCan: []Step{{ContactSupport, "Contact support."}}, next: Support, ended: Support,
		},
		{
			code: overCapacity, title: "The agent is paused because it does not fit into the plan",
			youCan: []Step{
				{ComparePlans, "Stop or delete other agents, or choose a larger plan."},
				{Resume, "Then resume the agent."},
			},
			trying: "Once the agent fits, the service resumes it within some minutes.", next: Billing, ended: Billing,
		},
	}
}

// The codes of situations.
const (
	agentPaused     = "agent_paused"
	agentAsleep     = "agent_asleep"
	agentStopped    = "agent_stopped"
	agentDeleting   = "agent_deleting"
	slowStart       = "slow_start"
	paymentOverdue  = "subscription_past_due"
	billingRequired = "billing_required"
	suspended       = "organization_suspended"
	overCapacity    = "plan_capacity_exceeded"
	egressRefused   = "egress_refused"
)

// ruleOf returns the rule of a code. A code of another release gets a general one.
func ruleOf(code string) rule {
	for _, r := range rules() {
		if r.code == code {
			return r
		}
	}
	return rule{
		code: code, title: "The agent has a problem",
		youCan: []Step{{ReadLogs, "Read the agent's log."}, again("Start it again."), support()},
		next:   Worker, ended: User,
	}
}

// Text is what the table says about a code, for pages that show a code without a diagnosis.
type Text struct {
	Title  string   `json:"title"`
	YouCan []string `json:"you_can"`
}

// Texts returns the texts of all codes.
func Texts() map[string]Text {
	texts := map[string]Text{}
	for _, r := range rules() {
		t := Text{Title: r.title, YouCan: []string{}}
		for _, s := range r.youCan {
			t.YouCan = append(t.YouCan, s.Text)
		}
		texts[r.code] = t
	}
	return texts
}
