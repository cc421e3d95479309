package embedded

import (
	"context"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"agents.example/controlplane/emulators/firestoreemu/embedded/store"
)

// ListCollectionIds implements firestorepb.FirestoreServer. A page token is the last id of the previous page. ¶
//
//nolint:revive // the service defines the name
func (s *service) ListCollectionIds(_ context.Context,
	r *firestorepb.ListCollectionIdsRequest,
) (*firestorepb.ListCollectionIdsResponse, error) {
	name, err := store.DatabaseOf(r.GetParent())
	if err != nil {
		return nil, invalid(err)
	}
	d, err := s.database(name)
	if err != nil {
		return nil, err
	}
	if err := store.CheckParent(d.Name(), r.GetParent()); err != nil {
		return nil, invalid(err)
	}
	if r.GetReadTime() != nil {
		return nil, unimplemented("a read at a read_time")
	}
	var ids []string
	for _, document := range d.All() {
		below, ok := strings.CutPrefix(document.GetName(), r.GetParent()+"/")
		if id, _, _ := strings.Cut(below, "/"); ok && id > r.GetPageToken() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	page := &firestorepb.ListCollectionIdsResponse{CollectionIds: ids}
	if size := int(r.GetPageSize()); size > 0 && size < len(ids) {
		page.CollectionIds, page.NextPageToken = ids[:size], ids[size-1]
	}
	return page, nil
}
