// Package plan knows the resource plans: the size of an agent on each and what an organization on it may hold.
// The figures stand in plans.json. It does not know who is on which plan, nor what has been used.
package plan

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// ID names a plan.
type ID string

// The plans, as the interface names them.
const (
	Hobby      ID = "hobby"
	Startup    ID = "startup"
	Business   ID = "business"
	Enterprise ID = "enterprise"
	Starter    ID = "starter"
	Pro        ID = "pro"
)

// Values lists the ids in the order the interface documents them. Validation messages quote this order.
func (ID) Values() []string {
	return []string{string(Hobby), string(Startup), string(Business), string(Enterprise), string(Starter), string(Pro)}
}

// AuditLog is the feature of reading the organization's audit log.
const AuditLog = "audit_log"

// Plan is one row of plans.json.
type Plan struct {
	ID                   ID       `json:"id"`
	Name                 string   `json:"name"`
	CPULimitMillicores   int64    `json:"cpu_limit_millicores"`
	CPURequestMillicores int64    `json:"cpu_request_millicores"`
	MemoryLimitMiB       int64    `json:"memory_limit_mib"`
	MemoryRequestMiB     int64    `json:"memory_request_mib"`
	StorageGiB           int64    `json:"storage_gib"`
	MaxAgents            int64    `json:"max_agents"`
	MaxAPIKeys           int64    `json:"max_api_keys"`
	PriceUSDMonth        *float64 `json:"price_usd_month"` // nil: by contract
	AuditRetentionDays   int      `json:"audit_retention_days"`
	Features             []string `json:"features"`

	rank int
}

//go:embed plans.json
var data []byte

// load parses the embedded table once. A table that can't be read is a defect of the build, caught by this package's
// test.
//
//nolint:gochecknoglobals // an immutable, lazily parsed constant
var load = sync.OnceValue(func() []Plan {
	var plans []Plan
	if err := json.Unmarshal(data, &plans); err != nil {
		return nil
	}
	for i := range plans {
		plans[i].rank = i
	}
	return plans
})

// All lists the plans from the smallest to the largest.
func All() []Plan { return slices.Clone(load()) }

// Get finds a plan. The error says that the plan does not exist (any more), which no retry mends.
func Get(id ID) (Plan, error) {
	for _, p := range load() {
		if p.ID == id {
			return p, nil
		}
	}
	return Plan{}, fmt.Errorf("plan %q does not exist", id)
}

// Fits reports whether an agent of plan p may live in an organization on plan org: its own size or smaller.
func (p Plan) Fits(org Plan) bool { return p.rank <= org.rank }

// CPUCores is the CPU limit in cores.
func (p Plan) CPUCores() float64 { return float64(p.CPULimitMillicores) / 1000 }

// MemoryBytes is the memory limit.
func (p Plan) MemoryBytes() int64 { return p.MemoryLimitMiB << 20 }

// StorageBytes is the size of the volume.
func (p Plan) StorageBytes() int64 { return p.StorageGiB << 30 }

// Has reports whether the plan includes a feature.
func (p Plan) Has(feature string) bool { return slices.Contains(p.Features, feature) }

// Next is the smallest plan above p, or "" when p is the largest.
func (p Plan) Next() ID {
	if all := load(); p.rank+1 < len(all) {
		return all[p.rank+1].ID
	}
	return ""
}
