// Package sealtest provides a store of seals in memory for tests. It does not test stores.
package sealtest

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/audit/seal"
)

// Memory implements seal.Store for one organization. Tests may change its fields while no other goroutine uses it.
type Memory struct {
	OrganizationID string
	Now            func() time.Time
	Log            []seal.Entry
	Sealed         []seal.Seal
	// Heads holds the stored head; empty for a chain of a former release.
	Heads []seal.Seal
	// Read counts the entries that were read.
	Read int
	// OnCreate is called before a seal is stored. It may be nil.
	OnCreate func(seal.Seal) error

	mu sync.Mutex
}

var _ seal.Store = (*Memory)(nil)

// Organizations implements seal.Store.
func (m *Memory) Organizations(_ context.Context, after string, _ int) ([]string, error) {
	if after >= m.OrganizationID {
		return nil, nil
	}
	return []string{m.OrganizationID}, nil
}

// Seals implements seal.Log.
func (m *Memory) Seals(context.Context, string) iter.Seq2[seal.Seal, error] {
	return func(yield func(seal.Seal, error) bool) { all(m.unexpired())(yield) }
}

func (m *Memory) unexpired() []seal.Seal {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	return slices.DeleteFunc(slices.Clone(m.Sealed), func(s seal.Seal) bool { return !now.Before(s.ExpiresAt) })
}

// LatestSeals implements seal.Store.
func (m *Memory) LatestSeals(context.Context, string) iter.Seq2[seal.Seal, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	latest := slices.Clone(m.Sealed)
	slices.Reverse(latest)
	if len(latest) == 0 {
		latest = slices.Clone(m.Heads)
	}
	return all(latest)
}

// KeepHead implements seal.Store.
func (m *Memory) KeepHead(_ context.Context, s seal.Seal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.Heads) == 0 || m.Heads[0].Sequence < s.Sequence {
		m.Heads = []seal.Seal{s.Head()}
	}
	return nil
}

func all[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Entries implements seal.Log.
func (m *Memory) Entries(_ context.Context, _ string, from, to time.Time) iter.Seq2[seal.Entry, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	found := slices.DeleteFunc(slices.Clone(m.Log), func(e seal.Entry) bool {
		return e.CreatedAt.Before(from) || !to.IsZero() && !e.CreatedAt.Before(to) || !now.Before(e.ExpiresAt)
	})
	slices.SortStableFunc(found, func(a, b seal.Entry) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	m.Read += len(found)
	return all(found)
}

// Create implements seal.Store.
func (m *Memory) Create(_ context.Context, s seal.Seal) (bool, error) {
	if m.OnCreate != nil {
		if err := m.OnCreate(s); err != nil {
			return false, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.Sealed, func(other seal.Seal) bool { return other.Sequence == s.Sequence }) {
		return false, nil
	}
	m.Sealed, m.Heads = append(m.Sealed, s), []seal.Seal{s.Head()}
	return true, nil
}
