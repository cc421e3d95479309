//go:build unix

package consoletest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/plan"
)

// someMetrics has curves with a gap, a single value between two gaps, and a curve and a figure without values.
func someMetrics(now time.Time) metrics.View {
	f := func(v float64) *float64 { return &v }
	minute := now.Unix() - now.Unix()%60
	curve := func(value float64) (points []metrics.Point) {
		for ago := int64(50); ago > 0; ago-- {
			if ago < 20 && ago != 10 {
				continue
			}
			points = append(points, metrics.Point{T: minute - 60*ago, V: value * float64(60-ago) / 50})
		}
		return points
	}
	return metrics.View{
		CPUPct: f(32.4), MemPct: f(93.2), PVCPct: f(8), UptimePct24h: f(99.998), CPUCores: f(0.162),
		MemoryBytes: f(980 << 20), Restarts24h: 2, CollectedAt: &now, Awake: someDays(now), Series: metrics.Curves{
			CPU: curve(0.2), Memory: curve(900 << 20), Requests: curve(3), Errors: []metrics.Point{},
		},
	}
}

// someDays are days of an agent that sleeps most of the time; it was not used on one of them.
func someDays(now time.Time) []agent.AwakeDay {
	var days []agent.AwakeDay
	for i, seconds := range []int{86_400, 41_520, 300, 0, 45, 7_260, 3_600} {
		days = append(days, agent.AwakeDay{Date: now.AddDate(0, 0, i-6).Format(time.DateOnly), Seconds: seconds})
	}
	return days
}

// TestMetrics_ShowWhatIsMissing shows curves with gaps and a figure that was not measured.
func TestMetrics_ShowWhatIsMissing(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	id := admin.RunningAgent("measured")
	p := admin.Page(t)
	body, err := json.Marshal(someMetrics(time.Now().UTC()))
	if err != nil {
		t.Fatal(err)
	}
	p.Respond("GET", "/metrics?", consoletest.Response{
		Status: http.StatusOK, Body: string(body), Header: map[string]string{"Content-Type": "application/json"},
	})
	p.Open("/console#/agents/" + id + "/metrics?window=1h")
	p.WaitText("93.2%")
	p.WaitText("Near the limit")
	p.WaitText("99.99%")  // of the uptime, rounded down
	p.WaitText("no data") // the latency
	p.WaitText("No data in this window")
	p.Within("region", "Time awake").WaitText("Awake for 38 h 38 min.")
	p.Within("region", "Time awake").WaitText("11 h 32 min")
	p.WaitFor("image", "CPU. Lowest *")
	p.WaitFor("image", "Memory. Lowest *")
	p.WaitTrue(`document.querySelectorAll("canvas").length === 3`)
	p.Review("agent-metrics")
	p.Click("DisclosureTriangle", "Values as a table")
	p.WaitFor("columnheader", "Errors (5xx)")
	p.WaitTrue(`document.querySelectorAll(".values tbody tr").length === 32`)
	p.Click("button", "6 hours")
	p.WaitURL("window=6h")
	p.Click("button", "Values")
	p.WaitURL("scale=values")
	happened := p.Within("region", "What happened in this window")
	happened.Click("link", "Agent created*")
	p.WaitTrue(`document.querySelectorAll('.history > li[aria-current="true"]').length === 1`)
	p.Click("link", "Read the log from then on")
	p.WaitText("serving")
	p.WaitURL("logs?since=2")
	p.Click("link", "History")
	p.WaitTrue(`document.querySelector(".history-tools select").value === "6h"`) // as chosen for the metrics
	p.Click("link", "Metrics")
	p.WaitUntil("button", "6 hours", "is chosen", isPressed)
	p.Respond("GET", "window=24h", consoletest.Response{Status: http.StatusServiceUnavailable, Body: outage})
	p.Click("button", "24 hours")
	p.Containing("status", "What you see is from").WaitText("The database is unavailable.")
	p.WaitNoText("1970")
}

// pollNow makes the page ask for all that it follows.
const pollNow = `document.dispatchEvent(new Event("visibilitychange"))`

// TestOverview_SaysWhatIsNotKnown shows an agent of which nothing was collected, and then keeps its figures while they
// cannot be read.
func TestOverview_SaysWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := admin.RunningAgent("unknown")
	p := admin.Page(t)
	none := metrics.View{Series: metrics.Curves{
		CPU: []metrics.Point{}, Memory: []metrics.Point{}, Requests: []metrics.Point{}, Errors: []metrics.Point{},
	}}
	body, err := json.Marshal(none)
	if err != nil {
		t.Fatal(err)
	}
	p.Respond("GET", "/metrics?", consoletest.Response{Status: http.StatusOK, Body: string(body)})
	p.Open("/console#/agents/" + agent)
	health := p.Within("region", "Health")
	health.WaitText("Restarts, last 24 hours")
	health.WaitNoText("0 restarts")
	now := p.Within("region", "What the agent is doing now")
	now.WaitText("Checked")
	for _, part := range []string{"/metrics?", "/dashboard-reachability"} {
		p.Respond("GET", part, consoletest.Response{
			Status: http.StatusServiceUnavailable, Body: outage,
			Header: map[string]string{"Retry-After": "600"}, // the page must not recover before the button is clicked
		})
	}
	consoletest.Eval[bool](p, pollNow)
	health.WaitText("Not up to date.")
	now.WaitText("Not up to date.")
	p.Review("agent-not-updated")
	p.Respond("GET", "/dashboard-reachability", consoletest.Response{})
	now.Click("button", "Try now")
	now.WaitNoText("Not up to date.")
}

// TestMetrics_OfANewAgent shows an agent of which nothing was collected yet, with real metrics. The page opens on the
// window that holds its life, and keeps the address without one until a person chooses.
func TestMetrics_OfANewAgent(t *testing.T) {
	t.Parallel()
	_, _, p := openAgent(t, "new", "/metrics")
	p.WaitUntil("button", "1 hour", "is chosen", isPressed)
	p.WaitText("Restarts")
	p.Review("agent-metrics-new")
	p.Click("button", "Values")
	p.WaitURL("/metrics?scale=values")
	if strings.Contains(p.URL(), "window") {
		t.Errorf("address = %q, want no window that the person did not choose", p.URL())
	}
	p.Click("button", "24 hours")
	p.WaitUntil("button", "24 hours", "is chosen", isPressed)
	p.WaitURL("window=24h")
}

func isPressed(e consoletest.Element) bool { return e.Pressed == "true" }

func TestMetricsWindow_IsTheSmallestThatHoldsALife(t *testing.T) {
	t.Parallel()
	p := module(t, "agent/curves.ts")
	for minutes, want := range map[int]string{
		-1: "1h", 0: "1h", 60: "1h", 61: "6h", 360: "6h", 361: "24h", 99999: "24h",
	} {
		expression := fmt.Sprintf("module.windowSince(1e12, 1e12 + %d * 60_000)", minutes)
		if got := consoletest.Eval[string](p, expression); got != want {
			t.Errorf("window of an agent of %d minutes = %s, want %s", minutes, got, want)
		}
	}
}
