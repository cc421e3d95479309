package bench

import (
	"context"
	"fmt"
)

const (
	memoryFew, memoryMany = 1000, 10_000
	memoryRequests        = 500
	memoryRounds          = 3
)

// measureMemory measures the memory part of P12: what processes of routes need after requests that list agents, or read
// what an organization uses, with many agents in the database, compared with few.
func measureMemory(ctx context.Context, l *environment) (Report, error) {
	roles := []coldStart{
		{binary: "api", path: "/api/v1/agents?limit=100"},
		{binary: "accounts", path: "/api/v1/organizations/current"},
	}
	amongFew, err := l.residentAmong(ctx, memoryFew, roles)
	if err != nil {
		return Report{}, err
	}
	amongMany, err := l.residentAmong(ctx, memoryMany, roles)
	if err != nil {
		return Report{}, err
	}
	var rows []Row
	for i, role := range roles {
		rows = append(rows, Row{
			ID: "P12", What: fmt.Sprintf("memory of %s, among %d agents", role.binary, memoryMany),
			Ours: amongMany[i], Limit: amongFew[i], Unit: "KiB", Most: 1.1, Timed: true,
			Note: fmt.Sprintf("limit: the same among %d agents", memoryFew),
		})
	}
	return Report{Rows: rows}, nil
}

// residentAmong returns the memory of each program after requests, in a deployment that has n running agents.
func (l *environment) residentAmong(ctx context.Context, n int, roles []coldStart) (resident []float64, err error) {
	d, err := l.deploy(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = closeDeployment(err, d) }()
	if _, err := d.createAgents(ctx, n); err != nil {
		return nil, err
	}
	s, err := l.starter(ctx, d, "functions/cmd/api", "functions/cmd/accounts")
	if err != nil {
		return nil, err
	}
	resident = make([]float64, len(roles))
	for i, role := range roles {
		if resident[i], err = s.residentAfterRequests(ctx, role); err != nil {
			return nil, err
		}
	}
	return resident, nil
}

// residentAfterRequests starts a program, sends requests, and returns its memory. It is the median of several starts.
func (s starter) residentAfterRequests(ctx context.Context, p coldStart) (float64, error) {
	p.env = []string{"RATE_LIMIT_FACTOR=100000"}
	var all []float64
	for range memoryRounds {
		program, err := s.serve(ctx, p)
		if err != nil {
			return 0, err
		}
		if _, err := program.cpuPerRequest(ctx, memoryRequests, "", s.key); err != nil {
			return 0, err
		}
		kib, err := residentKiB(program.Pid())
		if err != nil {
			return 0, err
		}
		all = append(all, kib)
	}
	return median(all), nil
}
