package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"agents.example/controlplane/terraform/prices"
)

// Cost is the price of counted operations at list prices.
type Cost struct {
	Title string
	Parts []Part
	// Schedules is the number of Cloud Scheduler jobs.
	Schedules int64
	// Limit is the least possible tally, and Of describes it; empty for none.
	Limit Tally
	Of    string
}

// Part is one operation, how often it happens, and its tally.
type Part struct {
	What  string
	Times int64
	Each  Tally
}

// item is a number of units with one price.
type item struct {
	price string
	count int64
}

func (t Tally) items() []item {
	return []item{
		{"request", t.Requests},
		{"read", t.Reads},
		{"write", t.Writes},
		{"delete", t.Deletes},
		{"message", t.Messages},
		{"series", t.Series},
	}
}

// total returns the sum of all parts.
func (c Cost) total() Tally {
	var sum Tally
	for _, p := range c.Parts {
		sum = sum.plus(p.Each.times(p.Times))
	}
	return sum
}

// usd returns the price of a tally and some schedules.
func usd(t Tally, schedules int64) (float64, error) {
	list, err := prices.Load()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, i := range append(t.items(), item{"schedule", schedules}) {
		sum += list.Of(i.price, float64(i.count))
	}
	if math.IsNaN(sum) {
		return 0, errors.New("the price list lacks an item of the tally")
	}
	return sum, nil
}

// perMillion returns the cost of a million operations, compared with requests that each read one document.
func perMillion(what string, each Tally) Cost {
	const n = 1_000_000
	return Cost{
		Title: "A million times: " + what, Parts: []Part{{What: what, Times: n, Each: each}},
		Limit: Tally{Requests: n, Reads: n}, Of: "a request and one document read",
	}
}

// row compares the cost with its limit. It misses the target if there are no prices.
func (c Cost) row() Row {
	ours, err := usd(c.total(), c.Schedules)
	limit, limitErr := usd(c.Limit, 0)
	r := Row{ID: "P11", What: c.Title, Ours: ours, Limit: limit, Unit: dollars, Most: 1.45, Note: "least possible: " +
		c.Of}
	if err != nil || limitErr != nil {
		r.Ours, r.Limit, r.Note = 1, 0, "the price list cannot be read"
	}
	return r
}

// print writes the cost as a Markdown table.
func (c Cost) print(w io.Writer) error {
	list, err := prices.Load()
	if err != nil {
		return err
	}
	total, err := usd(c.total(), c.Schedules)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s | times | documents read / written | messages | series | $ |\n|---|--:|--:|--:|--:|--:|\n",
		c.Title)
	for _, p := range c.Parts {
		cost, err := usd(p.Each.times(p.Times), 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "| %s | %s | %s / %s | %s | %s | %.2f |\n", p.What, withThousands(p.Times),
			withThousands(p.Each.Reads),
			withThousands(p.Each.Writes),
			withThousands(p.Each.Messages), withThousands(p.Each.Series), cost)
	}
	if c.Schedules > 0 {
		cost := float64(c.Schedules) * list["schedule"].USD
		fmt.Fprintf(&b, "| schedules | %d | | | | %.2f |\n", c.Schedules, cost)
	}
	fmt.Fprintf(&b, "| **total** | | | | | **%.2f** |\n", total)
	_, err = io.WriteString(w, b.String())
	return err
}
