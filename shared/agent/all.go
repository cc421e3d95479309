package agent

import (
	"context"

	"agents.example/controlplane/shared/page"
)

// ListAll reads all agents of the caller's organization, page by page. The plan limits their number. Errors:
// Unavailable.
func ListAll(ctx context.Context, s Store) ([]Agent, error) {
	var all []Agent
	for p := (page.Request{Limit: page.MaxLimit}); ; {
		found, err := s.List(ctx, Filter{}, p)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Items...)
		if p.Cursor = found.Next; p.Cursor == "" {
			return all, nil
		}
	}
}
