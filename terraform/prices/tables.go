package prices

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"agents.example/controlplane/shared/plan"
)

// Plans compares the price of each plan with what its agents cost when an organization has all of them. It returns the
// rows of a table, of which the first is the head.
func Plans() ([][]string, error) {
	l, err := Load()
	if err != nil {
		return nil, err
	}
	rows := [][]string{{
		"plan", "price", "agents", "an agent's pod and volume, as requested", "as Autopilot bills them",
		"its daily snapshots", "its secrets", "price ÷ cost, as requested", "price ÷ cost, as billed",
		"price ÷ cost, with snapshots and secrets", "Backup for GKE, in addition",
	}}
	for _, p := range plan.All() {
		a := l.Agent(p)
		rows = append(rows, []string{
			string(p.ID), price(p), strconv.FormatInt(p.MaxAgents, 10), dollars(a.Requested), dollars(a.Billed),
			dollars(a.Snapshots), dollars(a.Secrets), Coverage(p, a.Requested).String(), Coverage(p, a.Billed).String(),
			Coverage(p, a.Total()).String(), dollars(l.Backup(p)),
		})
	}
	return rows, nil
}

func price(p plan.Plan) string {
	if p.PriceUSDMonth == nil {
		return "by contract"
	}
	return "$" + thousands(*p.PriceUSDMonth)
}

func dollars(usd float64) string {
	if usd == 0 {
		return "–"
	}
	return fmt.Sprintf("$%.2f", usd)
}

// Ratio is a plan's price divided by the cost of all agents that an organization may have on it.
type Ratio float64

// Coverage compares a plan's price with the cost of its agents; each is what one agent costs. It is not a number for
// plans without a price.
func Coverage(p plan.Plan, each float64) Ratio {
	if p.PriceUSDMonth == nil || *p.PriceUSDMonth == 0 {
		return Ratio(math.NaN())
	}
	return Ratio(*p.PriceUSDMonth / (each * float64(p.MaxAgents)))
}

// String writes a ratio. It is bold if the price does not cover the cost.
func (r Ratio) String() string {
	switch {
	case math.IsNaN(float64(r)):
		return "–"
	case r < 1:
		return fmt.Sprintf("**%.2f**", float64(r))
	default:
		return fmt.Sprintf("%.2f", float64(r))
	}
}

// Bills lists what the deployments cost. It returns the rows of a table, of which the first is the head.
func Bills() ([][]string, error) {
	l, err := Load()
	if err != nil {
		return nil, err
	}
	var table [][]string
	titles, totals := []string{"a month, list prices in us-central1"}, []string{"**total**"}
	for _, d := range Deployments() {
		rows, err := l.Bill(d)
		if err != nil {
			return nil, err
		}
		if table == nil {
			table = make([][]string, len(rows))
		}
		for i, r := range rows {
			if table[i] == nil {
				table[i] = []string{r.What}
			}
			table[i] = append(table[i], "$"+thousands(r.USD))
		}
		titles, totals = append(titles, d.Title), append(totals, "**$"+thousands(total(rows))+"**")
	}
	return slices.Concat([][]string{titles}, table, [][]string{totals}), nil
}

// thousands writes a whole number with commas.
func thousands(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
