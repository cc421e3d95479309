package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"agents.example/controlplane/shared/egress"
)

const (
	// urgentEvery is how often hosts are reported that are new today, or refused for the first time, and reportEvery
	// how often all others are.
	urgentEvery = 5 * time.Second
	reportEvery = 10 * time.Minute
	// reportTimeout bounds publishing one message, and lastReport publishing what is left when the gate ends.
	reportTimeout = 10 * time.Second
	lastReport    = 10 * time.Second
	// maxMessage bounds a message. The counts of one agent and day take less than half of it.
	maxMessage = 256 << 10
)

// reportCounts publishes counts until ctx is done, and then what is left.
func (g *Gate) reportCounts(ctx context.Context) {
	tick := time.NewTicker(urgentEvery)
	defer tick.Stop()
	all := time.Now().Add(reportEvery)
	for {
		select {
		case now := <-tick.C:
			due := !now.Before(all)
			if due {
				all = now.Add(reportEvery)
			}
			g.publishCounts(ctx, due)
			g.counts.sweep()
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReport)
			defer cancel()
			g.publishCounts(ctx, true)
			return
		}
	}
}

// publishCounts publishes counts in as few messages as they fit into. What fails is published later.
func (g *Gate) publishCounts(ctx context.Context, all bool) {
	if g.o.Report == nil {
		return
	}
	keys := g.counts.take(all)
	slices.SortFunc(keys, func(a, b countKey) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.agentID, b.agentID))
	})
	const overhead = 1 << 10 // for what is around the reports
	for len(keys) > 0 {
		message, size, n := egress.Reports{Gate: g.o.Instance}, overhead, 0
		for ; n < len(keys); n++ {
			r := g.counts.report(keys[n])
			text, _ := json.Marshal(r) // its fields always encode
			if size += len(text) + 1; size > maxMessage && n > 0 {
				break
			}
			message.Reports = append(message.Reports, r)
		}
		if err := g.publish(ctx, message); err != nil {
			g.metrics.reportsFailed.Inc()
			if g.failures.Allow() {
				slog.WarnContext(ctx, "counts could not be reported", "error", err.Error())
			}
			for _, k := range keys { // the messages that follow would wait for as long
				g.counts.restore(k)
			}
			return
		}
		keys = keys[n:]
	}
}

func (g *Gate) publish(ctx context.Context, message egress.Reports) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := g.o.Report(ctx, message); err != nil {
		return fmt.Errorf("publish a report: %w", err)
	}
	return nil
}
