package organization

// Amounts is the usage of an organization, or its limits, in answers.
type Amounts struct {
	Agents       int64   `json:"agents" jsonschema:"The number of agents."`
	CPUCores     float64 `json:"cpu_cores" jsonschema:"CPU cores of all agents."`
	MemoryBytes  int64   `json:"memory_bytes" jsonschema:"Memory of all agents."`
	StorageBytes int64   `json:"storage_bytes" jsonschema:"Volumes of all agents."`
	APIKeys      int64   `json:"api_keys" jsonschema:"The number of API keys."`

	SnapshotBytes *int64 `json:"snapshot_bytes" jsonschema:"Snapshots of all agents, each with the size of a volume that is made from it; null in limits, because plans limit how many snapshots an agent has."`
}

// Amounts renders the usage.
func (u Usage) Amounts() Amounts {
	a := u.Limits()
	a.SnapshotBytes = &u.SnapshotBytes
	return a
}

// Limits renders the usage as the limits of a plan.
func (u Usage) Limits() Amounts {
	return Amounts{
		Agents: u.Agents, CPUCores: float64(u.CPUMillis) / 1000, MemoryBytes: u.MemoryBytes,
		StorageBytes: u.StorageBytes, APIKeys: u.APIKeys,
	}
}
