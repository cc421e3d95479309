package agentctl

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

func (t *tool) agentMetrics() *cobra.Command {
	window := string(client.MetricsWindowDay)
	c := t.agentCommand("metrics", "Show the use of resources and requests of an agent, or of all", "GetAgentMetrics",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			d, err := time.ParseDuration(window)
			if err != nil {
				return usagef("--window must be 1h, 6h or 24h, not %q", window)
			}
			m, err := api.GetAgentMetrics(ctx, a.ID,
				client.GetAgentMetricsParams{Window: client.MetricsWindow(window), Awake: true})
			if err != nil {
				return err
			}
			return t.show(result{value: m, names: []string{a.ID}, table: func(w io.Writer) error {
				t.printMetrics(asScreen(w), m, d)
				return nil
			}})
		})
	one := c.RunE
	c.Use, c.Args = "metrics [AGENT]", cobra.MaximumNArgs(1)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return one(cmd, args)
		}
		if cmd.Flags().Changed("window") {
			return usagef("--window needs an agent: those of all agents are shown without their course")
		}
		return t.allMetrics(cmd.Context())
	}
	c.Long = "Show an agent's use of resources and its requests, or without AGENT those of all agents. A " +
		"figure that was not measured is shown as -. The " +
		"lines of blocks go from the start of the window to now, and each has its own scale from 0 to its maximum."
	c.Example = "  agentctl agents metrics\n" +
		"  agentctl agents metrics my-agent --window 1h\n" +
		"  agentctl agents metrics my-agent -o jsonpath='{.memory_bytes}'"
	c.Flags().StringVar(&window, "window", window, "how far the series go back: 1h, 6h or 24h")
	completeWith(c, "window", "1h", "6h", "24h")
	return c
}

// allMetrics shows the current figures of all agents.
func (t *tool) allMetrics(ctx context.Context) error {
	api, err := t.client()
	if err != nil {
		return err
	}
	m, err := api.GetOrganizationMetrics(ctx)
	if err != nil {
		return err
	}
	type figures = client.MetricsAgentFigures
	percent := func(v float64) string { return short(v) + " %" }
	r := list(m.Agents, func(f figures) string { return f.AgentID }, []column[figures]{
		{"NAME", func(f figures) string { return f.Name }},
		{"STATUS", func(f figures) string { return string(f.Status) }},
		{"CPU", func(f figures) string { return orDash(f.CPUPct, percent) }},
		{"MEMORY", func(f figures) string { return orDash(f.MemPct, percent) }},
		{"VOLUME", func(f figures) string { return orDash(f.PvcPct, percent) }},
		{"UPTIME 24H", func(f figures) string { return orDash(f.UptimePct24H, percent) }},
		{"RESTARTS 24H", func(f figures) string { return orDash(f.Restarts24H, short) }},
		{"REQUESTS", func(f figures) string { return fmt.Sprintf("%.0f", f.RequestsTotal) }},
		{"ERRORS", func(f figures) string { return fmt.Sprintf("%.0f", f.RequestErrorsTotal) }},
	})
	r.value = m
	return t.show(r)
}

// figure is one line of metrics.
type figure struct {
	name, value, share string
	points             []client.MetricsPoint
	// show formats the maximum of the points.
	show func(float64) string
}

// printMetrics prints figures with the course of those that have one.
func (t *tool) printMetrics(s screen, m *client.Metrics, window time.Duration) {
	cores := func(v float64) string { return short(v) + " cores" }
	rate := func(v float64) string { return short(v) + "/s" }
	percent := func(v float64) string { return short(v) + " %" }
	restarts := "-"
	if m.CollectedAt != nil {
		restarts = short(m.Restarts24H)
	}
	plain := func(v float64) string { return short(v) + " ms" }
	figures := []figure{
		{"CPU", orDash(m.CPUCores, cores), orDash(m.CPUPct, percent), m.Series.CPU, cores},
		{"Memory", orDash(m.MemoryBytes, bytesText), orDash(m.MemPct, percent), m.Series.Memory, bytesText},
		{"Volume", "", orDash(m.PvcPct, percent), nil, nil},
		{"Requests", last(m.Series.Requests, rate), "", m.Series.Requests, rate},
		{"Errors", last(m.Series.Errors, rate), "", m.Series.Errors, rate},
		{"Latency p95", orDash(m.LatencyP95Ms, plain), "", nil, nil},
		{"Uptime 24h", orDash(m.UptimePct24H, uptimeText), "", nil, nil},
		{"Restarts 24h", restarts, "", nil, nil},
		{"Awake 7 days", awakeText(m.Awake), "", nil, nil},
	}
	from := t.app.Now().Add(-window)
	width := 40
	if s.width > 0 {
		width = max(8, min(width, s.width-56))
	}
	for _, f := range figures {
		line := s.in(bold, pad(f.name, 14)) + pad(f.value, 12) + pad(f.share, 9)
		if len(f.points) > 0 {
			blocks, most := s.sparkline(f.points, from, window, width)
			line += blocks + "  max " + f.show(most)
		}
		fmt.Fprintln(s, strings.TrimRight(line, " "))
	}
	collected := "Not measured yet"
	if m.CollectedAt != nil {
		collected = "Measured " + t.moment(*m.CollectedAt)
	}
	if m.Stale && m.CollectedAt != nil {
		collected += ", a newer measurement is overdue"
	}
	fmt.Fprintln(s, s.in(dim, collected))
}

// uptimeText shows an uptime. It is rounded down, so that 100 % means no outage.
func uptimeText(v float64) string {
	return strconv.FormatFloat(math.Floor(v*100)/100, 'f', -1, 64) + " %"
}

// orDash shows a figure, or - if it was not measured.
func orDash(v *float64, show func(float64) string) string {
	if v == nil {
		return "-"
	}
	return show(*v)
}

// last shows the newest value of a series.
func last(points []client.MetricsPoint, show func(float64) string) string {
	if len(points) == 0 {
		return "-"
	}
	return show(points[len(points)-1].V)
}

// sparkline draws a series with one character for each part of the window, and returns its maximum. A part without a
// value is a space, so that a gap stays visible.
func (s screen) sparkline(
	points []client.MetricsPoint, from time.Time, window time.Duration, width int,
) (line string, most float64) {
	sums, counts := make([]float64, width), make([]int, width)
	for _, p := range points {
		most = max(most, p.V)
		i := int(int64(width) * int64(time.Unix(p.T, 0).Sub(from)/time.Second) / int64(window/time.Second))
		if i = min(i, width-1); i >= 0 {
			sums[i] += p.V
			counts[i]++
		}
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	if !s.unicode {
		levels = []rune("_.-=+*#@")
	}
	var b strings.Builder
	for i, n := range counts {
		if n == 0 {
			b.WriteByte(' ')
			continue
		}
		level := 0
		if most > 0 {
			level = min(int(sums[i]/float64(n)/most*float64(len(levels))), len(levels)-1)
		}
		b.WriteRune(levels[max(level, 0)])
	}
	return ansi.Truncate(b.String(), width, ""), most
}

// awakeText is for how long an agent was awake in the last week, in hours.
func awakeText(days []client.AgentAwakeDay) string {
	const week = 7
	days = days[max(0, len(days)-week):]
	if len(days) == 0 {
		return "-"
	}
	seconds := int64(0)
	for _, d := range days {
		seconds += d.Seconds
	}
	return short(float64(seconds)/3600) + " h"
}
