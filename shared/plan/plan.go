// Package plan describes the resource plans: the size of an agent on each plan, and what an organization on it may
// hold. The numbers are in plans.json, smallest plan first. It does not track who is on which plan, nor usage.
package plan

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// ID names a plan.
type ID string

// The plans that code names. plans.json lists all of them.
const (
	Hobby      ID = "hobby"
	Startup    ID = "startup"
	Business   ID = "business"
	Enterprise ID = "enterprise"
	Starter    ID = "starter"
	Pro        ID = "pro"
)

// Values lists the ids in the order in which the interface documents them. Validation messages quote this order.
func (ID) Values() []string {
	plans := All()
	slices.SortFunc(plans, func(a, b Plan) int { return cmp.Compare(a.EnumPosition, b.EnumPosition) })
	values := make([]string, len(plans))
	for i, p := range plans {
		values[i] = string(p.ID)
	}
	return values
}

// Features of plans.
const (
	// AuditLog lets an organization on the plan read its audit log.
	AuditLog = "audit_log"
	// AllPorts lets an agent of the plan connect to every port of the internet, except those on which mail is
	// submitted. Without it, an agent reaches the ports of HTTP and HTTPS only.
	AllPorts = "all_ports"
	// DailyBackups adds the volume of an agent of the plan to the cell's daily backup, where the operator has turned
	// that on. Daily snapshots do not depend on it. Unlike them, it outlives the agent.
	DailyBackups = "daily_backups"
	// CustomImages lets an agent of the plan run an image that is no entry of the catalog.
	CustomImages = "custom_images"
	// Exec lets admins of an organization on the plan run commands in their agents' containers.
	Exec = "exec"
)

// Plan is one row of plans.json.
type Plan struct {
	ID                   ID       `json:"id"`
	EnumPosition         int      `json:"enum_position"` // its place in Values
	Name                 string   `json:"name"`
	CPULimitMillicores   int64    `json:"cpu_limit_millicores"`
	CPURequestMillicores int64    `json:"cpu_request_millicores"`
	MemoryLimitMiB       int64    `json:"memory_limit_mib"`
	MemoryRequestMiB     int64    `json:"memory_request_mib"`
	StorageGiB           int64    `json:"storage_gib"`
	MaxAgents            int64    `json:"max_agents"`
	MaxAPIKeys           int64    `json:"max_api_keys"`
	MaxWebhooks          int      `json:"max_webhooks"`
	PriceUSDMonth        *float64 `json:"price_usd_month"` // nil: by contract
	AuditRetentionDays   int      `json:"audit_retention_days"`
	SleepAfterSeconds    int64    `json:"sleep_after_seconds"` // of an agent whose client asks for nothing; 0: never
	MaxSnapshots         int      `json:"max_snapshots"`       // of an agent, that its users take
	DailySnapshots       int      `json:"daily_snapshots"`     // days for which daily ones are kept; 0: none are taken
	Features             []string `json:"features"`

	rank int
}

//go:embed plans.json
var data []byte

// load parses the embedded table once. This package's test fails if the table can't be parsed.
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

// Get finds a plan. It fails if the plan does not exist; a retry does not help.
func Get(id ID) (Plan, error) {
	for _, p := range load() {
		if p.ID == id {
			return p, nil
		}
	}
	return Plan{}, fmt.Errorf("plan %q does not exist", id)
}

// Fits reports whether an organization on plan org may have an agent of plan p: p is org's own size or smaller.
func (p Plan) Fits(org Plan) bool { return p.rank <= org.rank }

// Free reports whether the plan costs nothing.
func (p Plan) Free() bool { return p.PriceUSDMonth != nil && *p.PriceUSDMonth == 0 }

// CPUCores is the CPU limit in cores.
func (p Plan) CPUCores() float64 { return float64(p.CPULimitMillicores) / 1000 }

// MemoryBytes is the memory limit.
func (p Plan) MemoryBytes() int64 { return p.MemoryLimitMiB << 20 }

// StorageBytes is the size of the volume.
func (p Plan) StorageBytes() int64 { return p.StorageGiB << 30 }

// Has reports whether the plan includes a feature.
func (p Plan) Has(feature string) bool { return slices.Contains(p.Features, feature) }

// With returns the smallest plan that has a feature, or "" if none has.
func With(feature string) ID {
	for _, p := range All() {
		if p.Has(feature) {
			return p.ID
		}
	}
	return ""
}

// Next is the smallest plan above p, or "" when p is the largest.
func (p Plan) Next() ID {
	if all := load(); p.rank+1 < len(all) {
		return all[p.rank+1].ID
	}
	return ""
}
