// Package workers defines the functions that Pub/Sub pushes to: their topics, schedules and messages, one file per
// worker. It does not implement the work itself; packages provisioning, billing, metrics and organization do.
package workers

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// Reconcile brings the agent named in a nudge to its desired state.
func Reconcile(reconciler *provisioning.Reconciler) function.Worker {
	return function.Worker{
		Name: "ReconcileAgent", Topic: function.AgentNudges, Summary: "Bring an agent to its desired state",
		Needs: []function.Need{
			function.Firestore, function.SecretManage, function.ClusterApply, function.GatewayAccess,
		},
		Handle: func(ctx context.Context, m function.Message) error {
			id, err := agentID(m)
			if err != nil {
				return err
			}
			return reconciler.Reconcile(ctx, id)
		},
	}
}

// agentID returns the agent named in a nudge.
func agentID(m function.Message) (string, error) {
	var nudge function.AgentNudge
	if err := json.Unmarshal(m.Data, &nudge); err != nil {
		return "", fault.New(fault.BadRequest, "nudge_malformed", "The message is not an agent nudge.").WithCause(err)
	}
	id, err := uuid.Parse(nudge.AgentID)
	if err != nil {
		return "", fault.New(fault.BadRequest, "nudge_malformed", "The message has no valid agent id.").WithCause(err)
	}
	return id.String(), nil
}
