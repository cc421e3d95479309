package bench

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Cost is what counted operations cost at list prices.
type Cost struct {
	Title string
	Parts []Part
	// Schedules counts the jobs of Cloud Scheduler.
	Schedules int64
	// Limit is what can't be spent less, and Of says what that is; empty for none.
	Limit Tally
	Of    string
}

// Part is one operation, how often it is done, and what it spends.
type Part struct {
	What  string
	Times int64
	Each  Tally
}

// price is a list price.
type price struct {
	USD    float64 `json:"usd"`
	Per    float64 `json:"per"`
	Unit   string  `json:"unit"`
	Source string  `json:"source"`
	AsOf   string  `json:"as_of"`
}

//go:embed prices.json
var priceList []byte

// prices reads the list.
func prices() (map[string]price, error) {
	var list struct {
		Prices map[string]price `json:"prices"`
	}
	if err := json.Unmarshal(priceList, &list); err != nil {
		return nil, fmt.Errorf("read the price list: %w", err)
	}
	return list.Prices, nil
}

// item is a number of things of one price.
type item struct {
	price string
	count int64
}

func (t Tally) items() []item {
	return []item{
		{"request", t.Requests}, {"read", t.Reads}, {"write", t.Writes}, {"delete", t.Deletes}, {"message", t.Messages},
		{"series", t.Series},
	}
}

// total is what a cost's parts spend together.
func (c Cost) total() Tally {
	var sum Tally
	for _, p := range c.Parts {
		sum = sum.plus(p.Each.times(p.Times))
	}
	return sum
}

// usd adds up what a tally and some schedules cost.
func usd(t Tally, schedules int64) (float64, error) {
	list, err := prices()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, i := range append(t.items(), item{"schedule", schedules}) {
		p, ok := list[i.price]
		if !ok || p.Per <= 0 {
			return 0, fmt.Errorf("the price list has no price of a %s", i.price)
		}
		sum += float64(i.count) * p.USD / p.Per
	}
	return sum, nil
}

// perMillion is the cost of a million of an operation, held against one that reads a single document.
func perMillion(what string, each Tally) Cost {
	const n = 1_000_000
	return Cost{
		Title: "A million times: " + what, Parts: []Part{{what, n, each}},
		Limit: Tally{Requests: n, Reads: n}, Of: "a request and one document read",
	}
}

// row holds the cost against its limit. A price list that can't be read misses.
func (c Cost) row() Row {
	ours, err := usd(c.total(), c.Schedules)
	limit, limitErr := usd(c.Limit, 0)
	r := Row{ID: "P11", What: c.Title, Ours: ours, Limit: limit, Unit: dollars, Most: 1.45, Note: "limit: " + c.Of}
	if err != nil || limitErr != nil {
		r.Ours, r.Limit, r.Note = 1, 0, "there are no prices"
	}
	return r
}

// print writes the cost as a Markdown table.
func (c Cost) print(w io.Writer) error {
	list, err := prices()
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
	fmt.Fprintf(&b, "| **together** | | | | | **%.2f** |\n", total)
	_, err = io.WriteString(w, b.String())
	return err
}
