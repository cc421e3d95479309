// Package prices holds list prices of Google Cloud and computes what agents, plans and deployments cost at these
// prices. It reads no bill and knows no discount.
package prices

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
)

// Price is the list price of a unit.
type Price struct {
	USD float64 `json:"usd"`
	// Per is the number of units that USD buys.
	Per    float64 `json:"per"`
	Unit   string  `json:"unit"`
	Source string  `json:"source"`
	AsOf   string  `json:"as_of"`
}

// List maps items to their prices.
type List map[string]Price

//go:embed prices.json
var list []byte

// Load returns the list.
func Load() (List, error) {
	var file struct {
		Prices List `json:"prices"`
	}
	if err := json.Unmarshal(list, &file); err != nil {
		return nil, fmt.Errorf("read the price list: %w", err)
	}
	return file.Prices, nil
}

// Of returns the price of a number of units. It is not a number if the list lacks the item.
func (l List) Of(item string, units float64) float64 {
	p, ok := l[item]
	if !ok || p.Per <= 0 {
		return math.NaN()
	}
	return units * p.USD / p.Per
}

// hoursOfMonth is the length of an average month.
const hoursOfMonth = 730
