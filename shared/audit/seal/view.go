package seal

import "time"

// View is a report as a client sees it.
type View struct {
	Verified    bool          `json:"verified" jsonschema:"True if no problem was found."`
	Entries     int64         `json:"entries" jsonschema:"The number of entries in the log."`
	Unsealed    int64         `json:"unsealed" jsonschema:"The number of these that are in no seal yet. Entries are sealed once an hour, 20 minutes after they were written at the earliest."`
	Expired     int64         `json:"expired" jsonschema:"The number of sealed entries whose retention has ended."`
	Seals       int64         `json:"seals" jsonschema:"The number of seals."`
	SealedUntil *time.Time    `json:"sealed_until" jsonschema:"The sealed_until of the newest seal; null if there is none."`
	NewestSeal  *Name         `json:"newest_seal" jsonschema:"The newest seal; null if there is none. Keep it outside of the control plane, and send it later as the parameter seal."`
	Statement   *string       `json:"statement" jsonschema:"The organization, the sequence, the hash and the time of this answer, as a JWT that a key of /.well-known/jwks.json signs; null if there is no seal or no key."`
	SealFound   *bool         `json:"seal_found" jsonschema:"Whether the log has the seal of the parameter seal. It does not once that seal has expired. Null without the parameter."`
	Found       int64         `json:"problem_count" jsonschema:"The number of problems."`
	Problems    []ProblemView `json:"problems" jsonschema:"The first 100 problems."`
}

// Name names a seal for a client.
type Name struct {
	Sequence int64  `json:"sequence" jsonschema:"Counts the seals of the organization from 1."`
	Hash     string `json:"hash" jsonschema:"The hash of the seal, in hexadecimal digits."`
}

// ProblemView is a problem as a client sees it.
type ProblemView struct {
	Code     Code    `json:"code" jsonschema:"What was found: an entry that differs from what was sealed, is gone before its retention ended, was added to a time that had been sealed, or has another time; or a seal that was changed or is missing."`
	EntryID  *string `json:"entry_id" jsonschema:"The id of the entry; null for a seal."`
	Sequence *int64  `json:"sequence" jsonschema:"The sequence of the seal; null for an entry in no seal."`
}

// Example implements function.Exampler.
func (View) Example() any {
	until := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	newest := Seal{Sequence: 12, SealedUntil: until, Hash: NoHash}
	return Report{Entries: 420, Unsealed: 3, Seals: 12, Newest: &newest}.Show(nil, nil)
}

// Show renders the report for a client. kept is the seal that the client kept; nil for none.
func (r Report) Show(kept *Anchor, statement *string) View {
	v := View{
		Verified: r.Verified(), Entries: r.Entries, Unsealed: r.Unsealed, Expired: r.Expired, Seals: r.Seals,
		Statement: statement, Found: r.Found, Problems: make([]ProblemView, len(r.Problems)),
	}
	if r.Newest != nil {
		v.SealedUntil = new(r.Newest.SealedUntil.UTC())
		v.NewestSeal = &Name{r.Newest.Sequence, r.Newest.Hash}
	}
	if kept != nil {
		v.SealFound = &r.AnchorFound
	}
	for i, p := range r.Problems {
		v.Problems[i].Code = p.Code
		if p.EntryID != "" {
			v.Problems[i].EntryID = &p.EntryID
		}
		if p.Sequence != 0 {
			v.Problems[i].Sequence = &p.Sequence
		}
	}
	return v
}
