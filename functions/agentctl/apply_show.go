package agentctl

import (
	"encoding/json"
	"fmt"
	"io"
)

// showSteps prints what is or was done with each agent.
func (r *application) showSteps(steps []*step) error {
	names := []string{}
	for _, s := range steps {
		if s.ID != "" {
			names = append(names, s.ID)
		}
	}
	return r.show(result{value: steps, names: names, table: func(w io.Writer) error {
		for _, s := range steps {
			r.printStep(asScreen(w), s)
		}
		return nil
	}})
}

// printStep prints a step as people read differences: + for new, ~ for changed, - for removed.
func (r *application) printStep(w screen, s *step) {
	signs := map[string]string{
		actionCreate: w.in(green, "+"), actionChange: w.in(yellow, "~"), actionDelete: w.in(red, "-"), actionKeep: "=",
	}
	text := s.Key
	if s.Name != s.Key {
		text += " (" + s.Name + ")"
	}
	fmt.Fprintf(w, "%s %s: %s\n", signs[s.Action], w.in(bold, harmless(text)), r.stepText(s))
	for _, c := range s.Changes {
		fmt.Fprintf(w, "    %s\n", harmless(c.String()))
	}
}

// stepText says what is or was done, and what that costs.
func (r *application) stepText(s *step) string {
	if s.State == stateFailed {
		return "failed"
	}
	done := map[string][2]string{
		actionCreate: {"would be created", "created"}, actionChange: {"would be changed", "changed"},
		actionDelete: {"would be deleted with its volume and secrets", "being deleted"},
		actionKeep:   {"as in the file", ""},
	}[s.Action]
	text := done[0]
	if s.State == stateDone {
		text = done[1]
	}
	if r.dryRun && s.Would != nil {
		text += consequences(s)
	}
	if s.ID != "" {
		text += " (" + s.ID + ")"
	}
	return text
}

// consequences says what the rehearsal expects.
func consequences(s *step) string {
	text := ""
	if s.Would.Restarts {
		text = ", restarts, downtime " + downtimeText(*s.Would)
	}
	if hosts := lostHosts(*s.Would); hosts != "" {
		text += ", loses hosts: " + hosts
	}
	before, after := s.Would.UsageBefore, s.Would.UsageAfter
	if before.CPUCores != after.CPUCores || before.MemoryBytes != after.MemoryBytes {
		text += fmt.Sprintf(", %+.3g CPU, %s memory", after.CPUCores-before.CPUCores,
			signed(float64(after.MemoryBytes-before.MemoryBytes)))
	}
	if price := s.Would.MonthlyPriceChangeUsd; price != nil {
		text += fmt.Sprintf(", %+.2f USD a month", *price)
	}
	return text
}

// signed shows a number of bytes with its sign.
func signed(n float64) string {
	if n < 0 {
		return "-" + bytesText(-n)
	}
	return "+" + bytesText(n)
}

// String shows a difference in a line.
func (c fieldChange) String() string {
	switch {
	case c.Old == nil:
		return c.Field + ": " + valueText(c.New)
	case c.New == nil:
		return c.Field + ": " + valueText(c.Old) + " -> (removed)"
	}
	return c.Field + ": " + valueText(c.Old) + " -> " + valueText(c.New)
}

// valueText shows a value of a field in a line.
func valueText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(encoded)
}
