package diagnosis

// Action names a step, so that a program can offer its own command or button for it.
type Action string

// The actions.
const (
	Wait             Action = "wait"
	ReadLogs         Action = "read_logs"
	ReadPreviousLogs Action = "read_previous_logs"
	ViewMetrics      Action = "view_metrics"
	Restart          Action = "restart"
	Start            Action = "start"
	Resume           Action = "resume"
	Stop             Action = "stop"
	Update           Action = "update"
	SetSecret        Action = "set_secret"
	Reconcile        Action = "reconcile"
	MoveOutOfSandbox Action = "move_out_of_sandbox"
	RestoreSnapshot  Action = "restore_snapshot"
	Resize           Action = "resize"
	ComparePlans     Action = "compare_plans"
	ManageBilling    Action = "manage_billing"
	ContactSupport   Action = "contact_support"
	AllowHosts       Action = "allow_hosts"
)

// tryAgain stands in the rules for the action that starts the agent again: Start or Restart, by its status.
const tryAgain Action = "try_again"

// Values lists the actions.
func (Action) Values() []string {
	var values []string
	for _, a := range []Action{
		Wait, ReadLogs, ReadPreviousLogs, ViewMetrics, Restart, Start, Resume, Stop, Update, SetSecret, Reconcile,
		MoveOutOfSandbox, RestoreSnapshot, Resize, ComparePlans, ManageBilling, ContactSupport, AllowHosts,
	} {
		values = append(values, string(a))
	}
	return values
}
