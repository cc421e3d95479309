package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/emulators/dataplane"
)

const (
	// idleStreams is how long idle streams are measured at most. In this time each sends two heartbeats.
	idleStreams = 30 * time.Second
	// streamCPU is the target for the CPU time of idle streams, compared with the least program that sends as many
	// heartbeats.
	streamCPU = 1.5
)

// measureStreams measures the other half of P18: what a process that holds streams of events costs while nothing
// happens.
func measureStreams(ctx context.Context, l *environment, d *deployment) (Report, error) {
	dir, err := dataplane.BuildImagePackages(ctx, "agents.example/controlplane/functions/cmd/accounts",
		"agents.example/controlplane/emulators/bench/leastread")
	if err != nil {
		return Report{}, err
	}
	n := min(waits, 20*l.provisions)
	var all []held
	for range waitOrganizations {
		_, key, err := d.createOrganization(ctx)
		if err != nil {
			return Report{}, err
		}
		d.key = key
		all = append(all, slices.Repeat([]held{{"/api/v1/events/stream", key}}, n/waitOrganizations)...)
	}
	s := starter{deployment: d, dir: dir, logs: l.dir, key: d.key, host: l.host}
	both := func(idle time.Duration) (ours, least holding, err error) {
		least, err = s.hold(ctx, coldStart{
			binary: "leastread", target: "Hello", path: "/stream", env: []string{"DOCUMENT=events/none"},
		}, slices.Repeat([]held{{path: "/stream"}}, n), idle)
		if err != nil {
			return ours, least, err
		}
		ours, err = s.hold(ctx, coldStart{
			binary: "accounts", path: "/api/v1/events", env: unlimited(n),
		}, all, idle)
		return ours, least, err
	}
	ours, least, err := both(0)
	if err != nil {
		return Report{}, err
	}
	measured := min(idleStreams, time.Duration(l.provisions)*time.Second)
	oursIdle, leastIdle, err := both(measured)
	if err != nil {
		return Report{}, err
	}
	return Report{Rows: []Row{
		memoryRow(n, "idle streams of events", ours, least),
		{
			ID: "P18", What: fmt.Sprintf("%d idle streams of events for %s", n, measured),
			Ours: milliseconds(oursIdle.cpu), Limit: milliseconds(leastIdle.cpu), Unit: "ms of CPU", Most: streamCPU,
			Timed: true, Note: "limit: functions-framework and handlers that write as many heartbeats",
		},
	}}, nil
}
