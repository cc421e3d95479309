package firestore

import (
	"context"
	"log/slog"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/metrics"
)

// metricsDocument is a snapshot as it is stored. Its rings are bytes: as arrays they would be read ten times as slowly.
// No field but looked_at has an index.
type metricsDocument struct {
	OrganizationID string            `firestore:"organization_id"`
	LookedAt       *time.Time        `firestore:"looked_at"`
	CollectedAt    *time.Time        `firestore:"collected_at"`
	Figures        figuresDocument   `firestore:"figures"`
	Rings          map[string][]byte `firestore:"rings"`
}

type figuresDocument struct {
	CPUPct        *float64 `firestore:"cpu_pct"`
	MemPct        *float64 `firestore:"mem_pct"`
	PVCPct        *float64 `firestore:"pvc_pct"`
	UptimePct     *float64 `firestore:"uptime_pct"`
	CPUCores      *float64 `firestore:"cpu_cores"`
	MemoryBytes   *float64 `firestore:"memory_bytes"`
	LatencyMillis *float64 `firestore:"latency_millis"`
	Restarts      float64  `firestore:"restarts"`
}

type progressDocument struct {
	Until *time.Time `firestore:"until"`
	Next  *time.Time `firestore:"next"`
}

// ringsOf names the rings of a snapshot as they are stored.
func ringsOf(s *metrics.Snapshot) map[string]*metrics.Ring {
	return map[string]*metrics.Ring{
		"cpu_hour": &s.CPU.Hour, "cpu_day": &s.CPU.Day, "memory_hour": &s.Memory.Hour, "memory_day": &s.Memory.Day,
		"requests_hour": &s.Requests.Hour, "requests_day": &s.Requests.Day, "errors_hour": &s.Errors.Hour,
		"errors_day": &s.Errors.Day,
		"up":         &s.Up, "due": &s.Due,
	}
}

func metricsDocumentOf(s metrics.Snapshot) (metricsDocument, error) {
	d := metricsDocument{
		OrganizationID: s.OrganizationID, LookedAt: nullable(s.LookedAt), CollectedAt: nullable(s.CollectedAt),
		Figures: figuresDocument(s.Figures), Rings: map[string][]byte{},
	}
	for name, ring := range ringsOf(&s) {
		b, err := ring.MarshalBinary()
		if err != nil {
			return metricsDocument{}, err
		}
		d.Rings[name] = b
	}
	return d, nil
}

// collected lists the fields that a collector writes. The others are others' to write.
func (d metricsDocument) collected() []gcp.Update {
	return []gcp.Update{
		{Path: "collected_at", Value: d.CollectedAt}, {Path: "figures", Value: d.Figures},
		{Path: "rings", Value: d.Rings},
	}
}

// snapshotOf makes the snapshot of a document that exists. What can't be read is left empty, and said: it can be
// collected again.
func snapshotOf(ctx context.Context, snap *gcp.DocumentSnapshot) metrics.Snapshot {
	v := &values{of: snap.Data()}
	s := metrics.New(snap.Ref.ID, field[string](v, "organization_id"))
	s.Version = versionAt(snap.UpdateTime)
	s.LookedAt, s.CollectedAt = timeOf(moment(v, "looked_at")), timeOf(moment(v, "collected_at"))
	f := &values{of: field[map[string]any](v, "figures")}
	s.Figures = metrics.Figures{
		CPUPct: number(f, "cpu_pct"), MemPct: number(f, "mem_pct"), PVCPct: number(f, "pvc_pct"),
		UptimePct: number(f, "uptime_pct"),
		CPUCores:  number(f, "cpu_cores"), MemoryBytes: number(f, "memory_bytes"),
		LatencyMillis: number(f, "latency_millis"),
		Restarts:      field[float64](f, "restarts"),
	}
	rings := &values{of: field[map[string]any](v, "rings")}
	for name, ring := range ringsOf(&s) {
		read := *ring
		b := field[[]byte](rings, name)
		if len(b) == 0 {
			continue
		}
		if err := read.UnmarshalBinary(b); err != nil {
			rings.err = err
			continue
		}
		if read.Like(*ring) {
			*ring = read
		}
	}
	for _, of := range []*values{v, f, rings} {
		if of.err != nil {
			slog.ErrorContext(ctx, "a part of an agent's metrics can't be read; it is collected anew", "agent_id",
				snap.Ref.ID, "error", of.err)
		}
	}
	return s
}

// number reads a number that may be null.
func number(v *values, name string) *float64 {
	if v.of[name] == nil {
		return nil
	}
	n := field[float64](v, name)
	return &n
}
