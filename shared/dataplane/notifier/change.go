package notifier

import "time"

// Pod is what a worker's decision depends on. It leaves out what a pod changes while it starts.
type Pod struct {
	// UID tells a pod from its successor of the same name.
	UID string
	// Ready says that the pod serves requests.
	Ready bool
	// Trouble names what keeps the pod from becoming Ready. It is empty while the pod starts as it should.
	Trouble string
	// Since is when the pod became Ready or stopped being it.
	Since time.Time
}

// recent is the age up to which a change is news when the notifier starts. Its predecessor nudged for older ones, or
// the sweep did.
const recent = 10 * time.Minute

// PodFound handles a pod of the first list.
func (n *Notifier) PodFound(agentID string, p Pod) {
	if time.Since(p.Since) <= recent {
		n.PodAdded(agentID, p)
	}
}

// PodAdded handles a new pod. A pod that has just been created is no news: the worker that applied it waits for it.
func (n *Notifier) PodAdded(agentID string, p Pod) {
	if p.Ready || p.Trouble != "" {
		n.nudge(agentID, false)
	}
}

// PodChanged handles a change of a pod, and the repetition of its state after a watch has restarted. A trouble that
// ends does not matter: the pod becomes Ready, or has another trouble.
func (n *Notifier) PodChanged(agentID string, before, after Pod) {
	newTrouble := after.Trouble != "" && after.Trouble != before.Trouble
	if after.UID != before.UID || after.Ready != before.Ready || newTrouble {
		n.nudge(agentID, false)
	}
}

// Gone handles the end of a pod, a namespace or a volume.
func (n *Notifier) Gone(agentID string) { n.nudge(agentID, false) }
