package agentprobe

import (
	"context"
	"net/http"
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
	status, header, err := p.request(ctx, a, dataplane.PathDoor, func(http.Header) {})
	switch {
	case err != nil:
		return provisioning.Door{}, err
	case header.Get(routerHeader) != "" && (status == http.StatusServiceUnavailable || status == http.StatusNotFound):
		return provisioning.Door{Gone: true}, nil
	case status == http.StatusNoContent:
		seconds, _ := strconv.Atoi(header.Get(dataplane.HeaderDoorTime)) // an open door has none
		return provisioning.Door{
			Closed: header.Get(dataplane.HeaderDoor), Left: time.Duration(seconds) * time.Second,
		}, nil
	case status == http.StatusUnauthorized:
		return provisioning.Door{}, nil
	default:
		return provisioning.Door{}, badStatus(status)
	}
}
