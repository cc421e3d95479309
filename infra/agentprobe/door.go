package agentprobe

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/provisioning"
)

// routerHeader is in the router's own answers. A front that has too much to do answers with the same status without it.
const routerHeader = "X-Request-Id"

// Door implements provisioning.AgentProber. The router answers for an agent whose pod does not serve, and a front that
// does not know the question has no door.
func (p *Prober) Door(ctx context.Context, a agent.Agent) (provisioning.Door, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	got, err := p.request(ctx, a, dataplane.PathDoor, func(http.Header) {})
	switch {
	case err != nil:
		return provisioning.Door{}, err
	case got.saysGone():
		return provisioning.Door{Gone: true}, nil
	case got.status == http.StatusNoContent:
		seconds, _ := strconv.Atoi(got.header.Get(dataplane.HeaderDoorTime)) // an open door has none
		return provisioning.Door{
			Closed: got.header.Get(dataplane.HeaderDoor), Left: time.Duration(seconds) * time.Second,
		}, nil
	case got.status == http.StatusUnauthorized:
		return provisioning.Door{}, nil
	default:
		return provisioning.Door{}, badStatus(got.status)
	}
}

// saysGone reports whether the router says that no pod of the agent serves. A router that is busy says nothing of it.
func (a answer) saysGone() bool {
	var why struct{ Code string }
	return a.header.Get(routerHeader) != "" && json.Unmarshal(a.body, &why) == nil &&
		slices.Contains([]string{"not_found", "agent_not_ready", "agent_stopped"}, why.Code)
}
