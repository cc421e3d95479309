package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agents.example/controlplane/shared/client"
)

// dryRun is the argument that makes the call of a tool a rehearsal. Every tool that changes something has it.
const dryRun = "dry_run"

// rehearsalView is the result of a rehearsal: which agent, and what the call would do.
type rehearsalView struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Would wouldView `json:"would"`
}

type wouldView struct {
	Status client.AgentStatus `json:"status"`
	// Restarts is true if the pod of a running agent is replaced.
	Restarts bool `json:"restarts"`
	// Downtime is nil if it is unknown, or until the agent is started again.
	Downtime *int64 `json:"downtime_seconds_estimate"`
	// LosesSince is nil if the agent keeps its data.
	LosesSince *time.Time `json:"loses_data_since,omitempty"`
	// LosesHosts are those that the agent used in the last 7 days.
	LosesHosts []client.RehearsalLostHost `json:"loses_hosts,omitempty"`
	// The usage is that of the organization, whose plan the price is of; nil for a price by contract.
	UsageBefore amountsView `json:"organization_usage_before"`
	UsageAfter  amountsView `json:"organization_usage_after"`
	PriceBefore *float64    `json:"monthly_price_before_usd"`
	PriceAfter  *float64    `json:"monthly_price_after_usd"`
	PriceChange *float64    `json:"monthly_price_change_usd"`
}

type amountsView struct {
	Agents       int64   `json:"agents"`
	CPUCores     float64 `json:"cpu_cores"`
	MemoryBytes  int64   `json:"memory_bytes"`
	StorageBytes int64   `json:"storage_bytes"`
}

func amountsOf(a client.OrganizationAmounts) amountsView {
	return amountsView{
		Agents: a.Agents, CPUCores: a.CPUCores, MemoryBytes: a.MemoryBytes, StorageBytes: a.StorageBytes,
	}
}

// takeDryRun removes the argument dry_run. A value that is no boolean is refused, and never taken for a real call, and
// so is an argument that is there twice.
func takeDryRun(arguments json.RawMessage) (rest json.RawMessage, on bool, err error) {
	var given argumentList
	if len(arguments) > 0 && json.Unmarshal(arguments, &given) != nil {
		return nil, false, invalid("arguments", "Input should be an object that has each argument once")
	}
	value, present := given[dryRun]
	if !present {
		return arguments, false, nil
	}
	if on = bytes.Equal(value, []byte("true")); !on && !bytes.Equal(value, []byte("false")) {
		return nil, false, invalid(dryRun, "Input should be true or false")
	}
	delete(given, dryRun)
	rest, err = json.Marshal(given)
	return rest, on, err
}

// argumentList has the arguments of a tool by their names. It decodes no object that has a name twice.
type argumentList map[string]json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (l *argumentList) UnmarshalJSON(text []byte) error {
	*l = argumentList{}
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); start != json.Delim('{') {
		return errors.Join(err, errors.New("the arguments are no object"))
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err = errors.Join(err, d.Decode(&value)); err != nil {
			return err
		}
		key, _ := name.(string)
		if (*l)[key] != nil {
			return errors.New("an argument is there twice")
		}
		(*l)[key] = value
	}
	return nil
}

// options returns what a change adds to the calls that carry it out.
func (c *call) options() []client.CallOption {
	if c.rehearsal == nil {
		return nil
	}
	return []client.CallOption{client.DryRun(c.rehearsal)}
}

// rehearsed returns the result of a rehearsal and one sentence about it.
func rehearsed(r *client.Rehearsal) (rehearsalView, string, error) {
	if r.Agent.ID == "" {
		return rehearsalView{}, "", errors.New("the API has not rehearsed the call")
	}
	w := r.Would
	text := fmt.Sprintf("Nothing was changed. %q would be %s", r.Agent.Name, w.Status)
	if w.Restarts {
		text += " after a restart"
	}
	switch {
	case w.DowntimeSecondsEstimate == nil:
		text += ", and would not answer for an unknown time."
	case *w.DowntimeSecondsEstimate == 0:
		text += ", without downtime."
	default:
		text += fmt.Sprintf(", and would not answer for about %d s.", *w.DowntimeSecondsEstimate)
	}
	if w.LosesDataSince != nil {
		text += " It would lose what it wrote since " + w.LosesDataSince.Format(time.RFC3339) +
			", which is kept as a snapshot for 7 days."
	}
	if len(w.LosesHosts) > 0 {
		text += fmt.Sprintf(" It would no longer reach %d hosts that it used in the last 7 days.", len(w.LosesHosts))
	}
	return rehearsalView{
		ID: r.Agent.ID, Name: r.Agent.Name, Would: wouldView{
			Status: w.Status, Restarts: w.Restarts, Downtime: w.DowntimeSecondsEstimate,
			LosesSince:  w.LosesDataSince,
			LosesHosts:  w.LosesHosts,
			PriceBefore: w.MonthlyPriceBeforeUsd, PriceAfter: w.MonthlyPriceAfterUsd,
			PriceChange: w.MonthlyPriceChangeUsd,
			UsageBefore: amountsOf(w.UsageBefore), UsageAfter: amountsOf(w.UsageAfter),
		},
	}, text + " To do it, call the tool again without dry_run.", nil
}
