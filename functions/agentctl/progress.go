package agentctl

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/client"
)

// redrawEvery is how often running times are redrawn on a terminal.
const redrawEvery = 250 * time.Millisecond

// progress shows what happens to an agent on standard error: on a terminal as lines that change in place, elsewhere as
// one line for each change.
type progress struct {
	tool  *tool
	began time.Time
	stop  chan struct{}
	done  sync.WaitGroup

	mu    sync.Mutex
	agent *client.Agent
	// drawn is how many lines are above the cursor.
	drawn int
	// said are the lines that were printed for the status and for each stage.
	said map[string]string
	// moved is true once the agent was seen on its way to a status. Until then, its stages are those of an earlier
	// start.
	moved bool
}

// showProgress begins to show an agent. The caller calls end.
func (t *tool) showProgress(a *client.Agent) *progress {
	p := &progress{tool: t, began: t.app.Now(), stop: make(chan struct{}), said: map[string]string{}}
	p.update(a)
	if t.canRedraw() {
		p.done.Go(p.keepTime)
	}
	return p
}

// keepTime redraws until end is called.
func (p *progress) keepTime() {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.mu.Lock()
			p.redraw()
			p.mu.Unlock()
		}
	}
}

// update shows another version of the agent.
func (p *progress) update(a *client.Agent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.agent = a
	if p.tool.canRedraw() {
		p.redraw()
		return
	}
	status := fmt.Sprintf("%s is %s", a.Name, statusText(a))
	if !a.Status.IsSettled() {
		p.moved = true
		p.say("status", status)
	}
	for _, s := range a.Config.ProvisioningStages {
		if p.moved && s.Status != client.AgentStageStatusPending {
			p.say(string(s.Name), fmt.Sprintf("stage %s %s%s", s.Name, s.Status, p.stageDetail(s, false)))
		}
	}
	p.say("status", status)
}

// say prints a line unless it is what was last said about something.
func (p *progress) say(about, line string) {
	if p.said[about] != line {
		p.said[about] = line
		p.tool.note("%s", line)
	}
}

// end stops showing the agent. The last version stays on the screen.
func (p *progress) end() {
	close(p.stop)
	p.done.Wait()
}

// redraw replaces the drawn lines.
func (p *progress) redraw() {
	s := p.tool.stderr()
	lines := p.lines(s)
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.drawn)
	}
	for _, line := range lines {
		if s.width > 0 {
			line = s.fit(line, s.width)
		}
		b.WriteString("\r\x1b[2K" + line + "\n")
	}
	if p.drawn > len(lines) {
		b.WriteString("\x1b[J")
	}
	_, _ = io.WriteString(s, b.String()) // the terminal is gone
	p.drawn = len(lines)
}

// lines returns the agent's status and stages.
func (p *progress) lines(s screen) []string {
	a := p.agent
	lines := []string{fmt.Sprintf("%s  %s  %s", s.in(bold, harmless(a.Name)), s.status(string(a.Status)),
		s.in(dim, elapsed(p.tool.app.Now().Sub(p.began))))}
	if a.Status == client.AgentStatusRunning && a.DashboardWarming {
		return append(lines, "  a new pod starts")
	}
	if a.Status == client.AgentStatusDeleting {
		return lines
	}
	for _, stage := range a.Config.ProvisioningStages {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  %s %s%s", s.mark(stage.Status),
			pad(string(stage.Name), 10), harmless(p.stageDetail(stage, true))), " "))
	}
	return lines
}

// mark is the sign of a stage's status.
func (s screen) mark(status client.AgentStageStatus) string {
	marks := map[client.AgentStageStatus][2]string{
		client.AgentStageStatusSucceeded: {"✓", "+"}, client.AgentStageStatusRunning: {"•", "*"},
		client.AgentStageStatusFailed: {"✗", "x"}, client.AgentStageStatusSkipped: {"-", "-"},
	}
	styles := map[client.AgentStageStatus]style{
		client.AgentStageStatusSucceeded: green, client.AgentStageStatusRunning: yellow,
		client.AgentStageStatusFailed: red, client.AgentStageStatusSkipped: dim,
	}
	signs, known := marks[status]
	switch {
	case !known:
		return " "
	case s.unicode:
		return s.in(styles[status], signs[0])
	}
	return s.in(styles[status], signs[1])
}

// stageDetail says how long a stage took, and what is wrong. The time of a running stage is shown only live.
func (p *progress) stageDetail(s client.AgentStage, live bool) string {
	var parts []string
	switch {
	case s.Status == client.AgentStageStatusSkipped || s.StartedAt == nil:
	case s.FinishedAt != nil:
		parts = append(parts, elapsed(s.FinishedAt.Sub(*s.StartedAt)))
	case live && s.Status == client.AgentStageStatusRunning && !p.agent.Status.IsSettled():
		parts = append(parts, elapsed(p.tool.app.Now().Sub(*s.StartedAt)))
	}
	if s.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", s.Attempt))
	}
	if s.Message != nil && *s.Message != "" {
		parts = append(parts, *s.Message)
	}
	if len(parts) == 0 {
		return ""
	}
	return " " + strings.Join(parts, ", ")
}
