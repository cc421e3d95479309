package diagnosis

// remedies returns what a user can do about a failure, the best step first.
func remedies(code string) []Step {
	restart := Step{Restart, "Restart the agent once the cause is gone."}
	support := Step{ContactSupport, "Contact support if this persists, with the agent's id."}
	switch code {
	case "pod_crash_loop":
		return []Step{
			{ReadLogs, "Read the end of the previous run's log: it says why the agent exited."},
			{Update, "Correct the environment variables that the log complains about."},
			{SetSecret, "Set the secrets that are missing or wrong."},
			restart,
		}
	case "out_of_memory":
		return []Step{
			{Update, "Reduce the agent's memory use, for example with its environment variables."},
			{CreateLarger, "Create an agent with a larger plan. The plan of an agent cannot be changed."},
			restart,
		}
	case "readiness_timeout", "gateway_unhealthy", "provisioning_timeout", "timeout", "attempts_exhausted":
		return []Step{
			{ReadLogs, "Read the log: the agent must accept connections on $PORT soon after it starts."},
			{Restart, "Restart the agent."},
			support,
		}
	case "pod_unschedulable":
		return []Step{
			{Wait, "Wait a few minutes: machines are added automatically."},
			{Restart, "Restart the agent if it has ended in error."},
			support,
		}
	case "sandbox_unschedulable":
		return []Step{{Wait, "Nothing: the agent runs without the sandbox."}, support}
	case "secret_value_unavailable":
		return []Step{{SetSecret, "Set the secret again."}, restart}
	case "namespace_missing":
		return []Step{{Start, "Start the agent. It begins with an empty volume: its former data is lost."}, support}
	case "cluster_unavailable", "store_unavailable", "secret_store_unavailable", "namespace_terminating":
		return []Step{{Wait, "Wait: this is a problem of the platform and not of the agent."}, support}
	case "image_pull_failed", "object_rejected", "pod_rejected", "namespace_not_owned", "plan_unknown":
		return []Step{{ContactSupport, "Contact support with the agent's id: only the operator can repair this."}}
	default:
		return []Step{{ReadLogs, "Read the agent's log."}, {Restart, "Restart the agent."}, support}
	}
}
