package agentctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/client"
)

// statusAsleep is what the tool calls the status of an agent that sleeps, which is paused in the API.
const statusAsleep = "asleep"

// isAsleep reports whether an agent sleeps.
func isAsleep(a *client.Agent) bool {
	r := a.Config.StatusReason
	return a.Status == client.AgentStatusPaused && r != nil && *r == client.AgentStatusReasonIdle
}

// statusWord is an agent's status in a word.
func statusWord(a *client.Agent) string {
	if isAsleep(a) {
		return statusAsleep
	}
	return string(a.Status)
}

// sleepText says when an agent falls asleep and what wakes it; empty if it never sleeps.
func sleepText(s client.AgentSleep) string {
	if s.AfterSeconds == nil {
		return ""
	}
	text := fmt.Sprintf("after %s without use", shortDuration(time.Duration(*s.AfterSeconds)*time.Second))
	if len(s.WakeOn) == 0 {
		return text + "; only a client wakes it"
	}
	wakers := make([]string, len(s.WakeOn))
	for i, w := range s.WakeOn {
		wakers[i] = map[client.AgentWaker]string{
			client.AgentWakerRequest: "requests", client.AgentWakerSchedule: "schedules",
		}[w]
		if wakers[i] == "" {
			wakers[i] = string(w)
		}
	}
	return text + "; woken by " + strings.Join(wakers, " and ")
}

// shortDuration shows a duration without its zeros: 2h, and not 2h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// sleepFlags are the flags of when an agent sleeps and what wakes it.
type sleepFlags struct {
	after  sleepAfter
	wakeOn []string
}

func (f *sleepFlags) add(c *cobra.Command) {
	c.Flags().Var(&f.after, "sleep-after",
		"let the agent fall asleep after this `DURATION` without use, 5m to 168h, or never")
	c.Flags().StringSliceVar(&f.wakeOn, "wake-on", nil,
		"what wakes the agent when it sleeps: request, schedule, both with a comma, or none")
	completeWith(c, "sleep-after", "never", "5m", "30m", "2h", "24h")
	completeWith(c, "wake-on", "request", "schedule", "request,schedule", "none")
}

// spec returns what the flags say, or nil if they say nothing.
func (f *sleepFlags) spec() (*client.AgentSleepSpec, error) {
	if !f.after.given && f.wakeOn == nil {
		return nil, nil
	}
	spec := &client.AgentSleepSpec{}
	if f.after.given {
		spec.AfterSeconds = &f.after.seconds
	}
	if f.wakeOn != nil {
		wakers := []client.AgentWaker{}
		for _, w := range f.wakeOn {
			switch {
			case slices.Contains(agent.Waker("").Values(), w):
				wakers = append(wakers, client.AgentWaker(w))
			case w != "none" || len(f.wakeOn) > 1:
				return nil, usagef("--wake-on must be request, schedule, both with a comma, or none, not %q",
					strings.Join(f.wakeOn, ","))
			}
		}
		spec.WakeOn = &wakers
	}
	return spec, nil
}

// sleepAfter is the value of --sleep-after. Its seconds are nil for never.
type sleepAfter struct {
	given   bool
	seconds *int64
}

// String implements pflag.Value.
func (v *sleepAfter) String() string {
	switch {
	case !v.given:
		return ""
	case v.seconds == nil:
		return "never"
	}
	return shortDuration(time.Duration(*v.seconds) * time.Second)
}

// Type implements pflag.Value.
func (*sleepAfter) Type() string { return "duration" }

// Set implements pflag.Value.
func (v *sleepAfter) Set(text string) error {
	if text == "never" {
		*v = sleepAfter{given: true}
		return nil
	}
	d, err := time.ParseDuration(text)
	seconds := int64(d / time.Second)
	if err != nil || time.Duration(seconds)*time.Second != d || seconds < agent.MinSleepSeconds ||
		seconds > agent.MaxSleepSeconds {
		return errors.New("want a duration from 5m to 168h, such as 30m, or never")
	}
	*v = sleepAfter{given: true, seconds: &seconds}
	return nil
}

func (t *tool) sleepAgent() *cobra.Command {
	c := t.agentAction("sleep", "Put an agent to sleep until it is used", client.AgentStatusPaused,
		func(api *client.Client) agentChange { return api.SleepAgent })
	c.Long = "Put an agent to sleep now, even though it is in use. An agent that sleeps has no pod and keeps its " +
		"volume. It wakes as its setting says: with a request, with a schedule, or with agentctl agents resume. " +
		"An agent that never sleeps can be paused instead; see also: agentctl agents update --sleep-after"
	return c
}

// wakeToOpen wakes an agent that sleeps, and waits until it runs. The browser of a caller who may not resume it wakes
// it, if requests do.
func (t *tool) wakeToOpen(ctx context.Context, api *client.Client, a *client.Agent) (*client.Agent, error) {
	t.note("%s is asleep. It is woken, which takes some seconds.", a.Name)
	resumed, err := api.ResumeAgent(ctx, a.ID)
	if refused := new(client.Error); errors.As(err, &refused) && refused.Status == http.StatusForbidden &&
		slices.Contains(a.Sleep.WakeOn, client.AgentWakerRequest) {
		t.note("Your role does not resume agents, but opening the dashboard wakes it, too.")
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	awake, err := t.await(ctx, api, resumed)
	if err != nil {
		return nil, withNext(err, "The agent goes on without this command. Wait for it: agentctl agents wait "+a.ID)
	}
	if err := waitFailure(awake, client.AgentStatusRunning); err != nil {
		return nil, err
	}
	return api.GetAgent(ctx, a.ID, client.GetAgentParams{}) // with a link
}
